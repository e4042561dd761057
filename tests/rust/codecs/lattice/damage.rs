//! Damaged frames, and frames whose fields contradict their content.

use zstn_core::frame::{Frame, decompress};
use zstn_core::pure::Pure;
use zstn_core::{ErrorKind, Rule};
use zstn_tests::cases;
use zstn_tests::frames::{LatticeFields, stored};

use super::native;

fn small_frames() -> Vec<Vec<u8>> {
    let names = [
        "example",
        "columns-f16",
        "exceptions-bf16",
        "exceptions-f32",
        "offsets-bf16",
    ];
    let read = |name| cases::read("zxq1", &format!("{name}.zxq1"));
    names.map(read).to_vec()
}

#[test]
fn every_truncation_is_refused() {
    for frame in small_frames() {
        for len in 0..frame.len() {
            let error = decompress(&Pure, &frame[..len], 1 << 20).expect_err("cut");
            assert_eq!(error.kind(), ErrorKind::Malformed, "cut at {len}: {error}");
        }
        let mut longer = frame.clone();
        longer.push(0);
        let error = decompress(&Pure, &longer, 1 << 20).expect_err("a byte too many");
        assert_eq!(error.rule(), Some(Rule::FrameTrailing), "{error}");
    }
}

#[test]
fn every_bit_flip_gives_an_error_or_elements() {
    let native = native();
    for frame in small_frames() {
        let mut flipped = frame.clone();
        for bit in 0..frame.len() * 8 {
            flipped[bit / 8] ^= 1 << (bit % 8);
            let results = [
                decompress(&Pure, &flipped, 1 << 20),
                decompress(&native, &flipped, 1 << 20),
            ];
            assert_eq!(results[0], results[1], "bit {bit}");
            if let Ok(bytes) = &results[0] {
                let len = Frame::parse(&flipped)
                    .expect("it decodes")
                    .decoded_len_bytes();
                assert_eq!(bytes.len() as u64, len, "bit {bit}");
            }
            flipped[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

fn fields() -> LatticeFields {
    LatticeFields {
        geometry: [2, 4, 1, 4],
        size_scales: [7, 0],
        frames: vec![stored(&[7; 8]), stored(&[0x80, 0x3f, 0x80, 0x3f])],
        ..LatticeFields::default()
    }
}

fn refusal(fields: &LatticeFields) -> Option<Rule> {
    let decoded = decompress(&Pure, &fields.frame(), 1 << 40);
    decoded.expect_err("refused").rule()
}

#[test]
fn fields_that_do_not_exist_are_refused() {
    assert!(decompress(&Pure, &fields().frame(), 16).is_ok());
    for dtype_grid_flags in [
        [3, 0, 0],
        [0, 5, 0],
        [0, 0, 4],
        [0, 3, 0],
        [1, 4, 0],
        [2, 2, 1],
    ] {
        let fields = LatticeFields {
            dtype_grid_flags,
            ..fields()
        };
        assert_eq!(
            refusal(&fields),
            Some(Rule::LatticeHead),
            "{dtype_grid_flags:?}"
        );
    }
    for size_scales in [[0, 0], [128, 0], [7, 3]] {
        let fields = LatticeFields {
            size_scales,
            ..fields()
        };
        assert_eq!(refusal(&fields), Some(Rule::LatticeHead), "{size_scales:?}");
    }
    for geometry in [
        [0, 4, 1, 4],
        [2, 0, 1, 4],
        [2, 4, 0, 4],
        [2, 4, 3, 4],
        [2, 4, 1, 5],
    ] {
        let fields = LatticeFields {
            geometry,
            ..fields()
        };
        assert_eq!(refusal(&fields), Some(Rule::LatticeShape), "{geometry:?}");
    }
    let table = LatticeFields {
        dtype_grid_flags: [0, 1, 0],
        size_scales: [7, 0],
        table: vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, f32::NAN],
        ..fields()
    };
    assert_eq!(refusal(&table), Some(Rule::LatticeHead));
}

#[test]
fn lengths_beyond_the_inner_frames_cost_nothing() {
    for geometry in [
        [u32::MAX, u32::MAX, 1, 1],
        [1 << 31, 4, 1, 4],
        [2, u32::MAX, 2, u32::MAX],
    ] {
        let fields = LatticeFields {
            geometry,
            ..fields()
        };
        assert_eq!(refusal(&fields), Some(Rule::LatticeFrames), "{geometry:?}");
    }
}

#[test]
fn inner_frames_are_those_of_containers_and_fill_their_places() {
    let inner = |number: usize, frame: Vec<u8>| {
        let mut fields = fields();
        fields.frames[number] = frame;
        refusal(&fields)
    };
    let nested = LatticeFields {
        geometry: [1, 4, 1, 4],
        ..fields()
    };
    let nested = LatticeFields {
        frames: vec![stored(&[7; 4]), stored(&[0x80, 0x3f])],
        ..nested
    };
    assert!(decompress(&Pure, &nested.frame(), 8).is_ok());
    // The inner frame has eight bytes, one per symbol.
    assert_eq!(inner(0, nested.frame()), Some(Rule::LatticeFrames));
    assert_eq!(
        inner(0, [stored(&[7; 8]), vec![0]].concat()),
        Some(Rule::LatticeFrames)
    );
    assert_eq!(inner(0, stored(&[7; 9])), Some(Rule::LatticeFrames));
    assert_eq!(inner(1, stored(&[0x80, 0x3f])), Some(Rule::LatticeFrames));
    assert_eq!(inner(1, b"ZRT1".to_vec()), Some(Rule::LatticeFrames));
}

#[test]
fn symbols_and_scales_are_finite() {
    let with = |number: usize, bytes: &[u8], head: ([u8; 3], [u8; 2])| {
        let mut fields = LatticeFields {
            dtype_grid_flags: head.0,
            size_scales: head.1,
            ..fields()
        };
        fields.frames[number] = stored(bytes);
        refusal(&fields)
    };
    let integers = ([0, 0, 0], [7, 0]);
    assert_eq!(
        with(0, &[7, 7, 7, 16, 7, 7, 7, 7], integers),
        Some(Rule::LatticeSymbol)
    );
    let e4m3 = ([0, 2, 0], [0, 0]);
    assert_eq!(
        with(0, &[7, 7, 7, 0xff, 7, 7, 7, 7], e4m3),
        Some(Rule::LatticeSymbol)
    );
    let half = ([2, 3, 0], [0, 0]);
    assert_eq!(
        with(0, &[0, 0x7c].repeat(8), half),
        Some(Rule::LatticeSymbol)
    );
    assert_eq!(
        with(1, &[0x80, 0x7f, 0, 0], integers),
        Some(Rule::LatticeScale)
    );
    let half_scales = ([0, 0, 0], [7, 1]);
    assert_eq!(
        with(1, &[0, 0, 0, 0xfc], half_scales),
        Some(Rule::LatticeScale)
    );
}

#[test]
fn exceptions_are_those_of_the_bitmap() {
    let with = |bitmap: &[u8], elements: &[u8]| {
        let mut fields = LatticeFields {
            dtype_grid_flags: [0, 0, 2],
            ..fields()
        };
        fields.frames.extend([stored(bitmap), stored(elements)]);
        decompress(&Pure, &fields.frame(), 1 << 40)
    };
    let bytes = with(&[2], &[9; 8]).expect("good");
    assert_eq!(bytes, [[0; 8], [9; 8]].concat());
    let rule = |bitmap: &[u8], elements: &[u8]| with(bitmap, elements).expect_err("bad").rule();
    assert_eq!(rule(&[2], &[9; 6]), Some(Rule::LatticeExceptions));
    assert_eq!(rule(&[2], &[9; 16]), Some(Rule::LatticeExceptions));
    assert_eq!(rule(&[4], &[9; 8]), Some(Rule::LatticeExceptions));
    assert_eq!(rule(&[2, 0], &[9; 8]), Some(Rule::LatticeFrames));
}
