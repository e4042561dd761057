//! Checks the worked examples in the format description byte for byte.

use zstn_core::frame::{chunked, decompress, palette, sparse, turbo, zara};
use zstn_core::pure::Pure;

use super::{CODINGS, bit_pack, example, native};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| {
            let pair = std::str::from_utf8(pair).expect("hex");
            u8::from_str_radix(pair, 16).expect("hex")
        })
        .collect()
}

/// The examples in docs/formats/z4ai-frames.md 17.
#[test]
fn worked_examples() {
    let sparse_frame = hex(
        "5A535031 01 02 00 00 0A00000000000000 0500000000000000 01000000 00 00 99 \
         0B00000000000000 28B52FFD2002110000 4D80 \
         5A525431 02 02 0A00000000000000 01 02 \
         00 0500000000000000 0500000000000000 8080803400 \
         00 0500000000000000 0500000000000000 3FBF3F1280",
    );
    let chunked_frame = hex("5A3441494D463031 00 02 01000000 0A000000 01 99 \
         00 0A000000 00800000808000340000 00 0A000000 003F0000BF3F00128000");
    for frame in [&sparse_frame, &chunked_frame] {
        assert_eq!(decompress(&Pure, frame, 21).expect("decodes"), example());
    }
    let engine = native();
    let planes = turbo::TurboTransform::BytePlane;
    assert_eq!(
        sparse::encode(&engine, &example(), 2, planes, &CODINGS),
        sparse_frame
    );
    assert_eq!(
        chunked::encode(&engine, &example(), 2, 1 << 21, &[]),
        chunked_frame
    );
    let palette_frame = palette::encode(&engine, &example(), 2, 256, &CODINGS).expect("5 values");
    let head = hex("5A504C31 01 02 00 01 0A00000000000000 05000000 01000000 00 00 99 13000000");
    assert_eq!(palette_frame[..head.len()], head);
    assert_eq!(
        decompress(&Pure, &palette_frame, 21).expect("decodes"),
        example()
    );
    assert!(palette::encode(&engine, &example(), 2, 4, &CODINGS).is_none());

    // The sign, exponent and packed mantissa, all stored.
    let packed = zara::encode(&engine, &example(), bit_pack("bfloat16"), &[]);
    let streams = hex("00 0200000000000000 0200000000000000 0880 \
         00 0A00000000000000 0A00000000000000 007F00007F7F00240000 \
         00 0900000000000000 0900000000000000 000000000000340000");
    assert!(packed.ends_with(&streams));
    assert_eq!(decompress(&Pure, &packed, 21).expect("decodes"), example());
}
