//! Golden vectors of the frame families, decoded by both engines.

use zstn_core::ErrorKind;
use zstn_core::engine::Engine;
use zstn_core::frame::{Frame, decompress};
use zstn_core::pure::Pure;
use zstn_tests::{cases, sha256};

use super::native;

fn vectors_decode(engine: &impl Engine) {
    for (magic, least) in [
        ("ZSP1", 40),
        ("ZPL1", 35),
        ("ZARA", 141),
        ("ZRT1", 19),
        ("Z4AIMF01", 15),
    ] {
        let mut decoded = 0;
        for (name, case) in cases::frames() {
            if case.magic != magic {
                continue;
            }
            let frame = cases::read("z4ai", &format!("{name}.z4ai"));
            let bytes = decompress(engine, &frame, case.original_len)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(bytes.len() as u64, case.original_len, "{name}");
            assert_eq!(sha256(&bytes), case.original_sha256, "{name}");
            let parsed = Frame::parse(&frame).expect("it has just been parsed");
            let mut out = vec![0xAA; bytes.len()];
            parsed.decode(engine, &mut out).expect("decodes");
            assert!(out == bytes, "{name}: decoding in place differs");
            if case.original_len > 0 {
                let error = decompress(engine, &frame, case.original_len - 1).expect_err("limit");
                assert_eq!(error.kind(), ErrorKind::Limit, "{name}: {error}");
            }
            decoded += 1;
        }
        assert!(decoded >= least, "{decoded} frames of kind {magic}");
    }
}

#[test]
fn vectors_decode_with_c_zstd() {
    vectors_decode(&native());
}

#[test]
fn vectors_decode_with_rust_alone() {
    vectors_decode(&Pure);
}

#[test]
fn numpy_vectors_give_dtype_and_shape() {
    let mut described = 0;
    for (name, case) in cases::frames() {
        let bytes = cases::read("z4ai", &format!("{name}.z4ai"));
        let frame = Frame::parse(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let numpy = frame.numpy();
        assert_eq!(
            numpy.map(|n| n.dtype),
            case.numpy_dtype.as_deref(),
            "{name}"
        );
        assert_eq!(numpy.map(|n| &n.shape), case.shape.as_ref(), "{name}");
        described += usize::from(numpy.is_some());
    }
    assert!(described > 20, "only {described} frames of arrays");
}
