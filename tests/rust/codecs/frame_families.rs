//! The frame families other than `Z4AI`: golden vectors with both engines, worked
//! examples of the format description, round trips, and damage.

use proptest::prelude::*;
use zstn_core::engine::{Engine, ZstdCoding};
use zstn_core::frame::zara::{self, StreamCodec};
use zstn_core::frame::{
    ContainedFrame, Edition, Family, Frame, chunked, decompress, palette, sparse, turbo,
};
use zstn_core::pure::Pure;
use zstn_core::transform::FloatFormat;
use zstn_core::{ErrorKind, Rule};
use zstn_tests::rng::Rng;
use zstn_tests::tier::stepped;
use zstn_tests::{cases, native, sha256};

use crate::refuses_other_lengths;

const CODINGS: [ZstdCoding; 2] = [ZstdCoding::Huffman, ZstdCoding::Search(3)];

/// Returns the input of the worked examples: ten elements and an extra byte.
fn example() -> Vec<u8> {
    let words = [0u16, 0x3F80, 0, 0, 0xBF80, 0x3F80, 0, 0x1234, 0x8000, 0];
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.push(0x99);
    bytes
}

fn float(name: &str) -> FloatFormat {
    FloatFormat::by_name(name.as_bytes()).expect("a float format")
}

fn bit_pack(name: &str) -> zara::ZaraTransform {
    zara::ZaraTransform::BitPack(float(name))
}

fn comes_back(engine: &zstn::Engine, frame: &[u8], bytes: &[u8]) {
    let limit = bytes.len() as u64;
    assert!(decompress(&Pure, frame, limit).expect("decodes") == bytes);
    assert!(decompress(engine, frame, limit).expect("decodes") == bytes);
}

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

/// Generates zeros, few distinct values, weights or noise.
fn data() -> impl Strategy<Value = Vec<u8>> {
    (any::<u64>(), 0usize..6000, 0..5).prop_map(|(seed, len, kind)| {
        let mut rng = Rng(seed);
        let mut bytes: Vec<u8> = match kind {
            0 => rng.bytes(len),
            1 => rng.bf16_weights(len / 2 + 1),
            2 => {
                let values = rng.bytes(97);
                let pick = |rng: &mut Rng| usize::from(rng.bytes(1)[0] % 11) * 8;
                (0..len / 8 + 1)
                    .flat_map(|_| values[pick(&mut rng)..][..8].to_vec())
                    .collect()
            }
            3 => (0..len / 8 + 1)
                .flat_map(|_| match rng.next_u64() {
                    word if word % 3 == 0 => word.to_le_bytes(),
                    _ => [0; 8],
                })
                .collect(),
            _ => vec![0; len],
        };
        bytes.truncate(len);
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sparse_frames(bytes in data(), log in 0u32..4, opaque: bool) {
        let engine = native();
        let transform = if opaque { turbo::TurboTransform::Opaque } else { turbo::TurboTransform::BytePlane };
        let frame = sparse::encode(&engine, &bytes, 1 << log, transform, &CODINGS);
        comes_back(&engine, &frame, &bytes);
    }

    #[test]
    fn turbo_frames(bytes in data(), width in 1u8..20, opaque: bool) {
        let engine = native();
        let transform = if opaque { turbo::TurboTransform::Opaque } else { turbo::TurboTransform::BytePlane };
        comes_back(&engine, &turbo::encode(&engine, &bytes, width, transform, &CODINGS), &bytes);
    }

    #[test]
    fn palette_frames(bytes in data(), log in 1u32..4) {
        let engine = native();
        for most in [256, u32::MAX] {
            if let Some(frame) = palette::encode(&engine, &bytes, 1 << log, most, &CODINGS) {
                comes_back(&engine, &frame, &bytes);
            }
        }
    }

    #[test]
    fn chunked_frames(bytes in data(), width in 1u8..20, chunk_bytes in 0u32..3000) {
        let engine = native();
        comes_back(&engine, &chunked::encode(&engine, &bytes, width, chunk_bytes, &CODINGS), &bytes);
    }

    #[test]
    fn auto_frames(bytes in data(), width in 1u8..20, kind in 0usize..8, choice in 0usize..6) {
        let engine = native();
        let name = ["bfloat16", "float16", "float32"][kind % 3];
        let transform = match kind {
            0..3 => bit_pack(name),
            3..6 => zara::ZaraTransform::BitField(float(name)),
            6 => zara::ZaraTransform::Raw(width),
            _ => zara::ZaraTransform::BytePlane(width),
        };
        let codecs = [
            StreamCodec::Zstd(ZstdCoding::Search(1)),
            StreamCodec::Rans,
            StreamCodec::Brotli(9),
            StreamCodec::BrotliBlocks { quality: 5, block_bytes: 700 },
        ];
        // One codec alone, all codecs, or none.
        let codecs = match choice {
            0..4 => &codecs[choice..=choice],
            4 => &codecs[..],
            _ => &[],
        };
        comes_back(&engine, &zara::encode(&engine, &bytes, transform, codecs), &bytes);
    }
}

#[test]
fn nothing_and_less_than_an_element() {
    let engine = native();
    let codecs = [
        StreamCodec::Zstd(ZstdCoding::Search(1)),
        StreamCodec::Rans,
        StreamCodec::Brotli(9),
    ];
    for bytes in [&[][..], &[7], &[0, 0, 1]] {
        for transform in [
            zara::ZaraTransform::Raw(4),
            zara::ZaraTransform::BytePlane(4),
            zara::ZaraTransform::BitField(float("float32")),
            bit_pack("float32"),
        ] {
            comes_back(
                &engine,
                &zara::encode(&engine, bytes, transform, &codecs),
                bytes,
            );
        }
        let planes = turbo::TurboTransform::BytePlane;
        comes_back(
            &engine,
            &sparse::encode(&engine, bytes, 4, planes, &CODINGS),
            bytes,
        );
        let palette = palette::encode(&engine, bytes, 4, 256, &CODINGS).expect("no values");
        comes_back(&engine, &palette, bytes);
        comes_back(
            &engine,
            &chunked::encode(&engine, bytes, 4, 100, &CODINGS),
            bytes,
        );
        comes_back(
            &engine,
            &turbo::encode(&engine, bytes, 4, planes, &CODINGS),
            bytes,
        );
    }
}

/// Returns small frames of every family with every method that the family has.
fn small_frames() -> Vec<Vec<u8>> {
    let engine = native();
    let mut bytes = example().repeat(12);
    bytes.extend(Rng(9).bf16_weights(40));
    let planes = turbo::TurboTransform::BytePlane;
    let mut frames = vec![
        sparse::encode(&engine, &bytes, 2, planes, &CODINGS),
        sparse::encode(&engine, &[0; 33], 2, planes, &CODINGS),
        palette::encode(&engine, &bytes, 2, 256, &CODINGS).expect("few values"),
        turbo::encode(&engine, &bytes, 2, planes, &CODINGS),
        chunked::encode(&engine, &bytes, 2, 99, &CODINGS),
    ];
    for choice in [
        StreamCodec::Zstd(ZstdCoding::Search(3)),
        StreamCodec::Rans,
        StreamCodec::Brotli(11),
        StreamCodec::BrotliBlocks {
            quality: 9,
            block_bytes: 100,
        },
    ] {
        frames.push(zara::encode(
            &engine,
            &bytes,
            bit_pack("bfloat16"),
            &[choice],
        ));
    }
    for name in [
        "palette-fp32-index4",
        "zara-fp32-byteplane-mixed",
        "np-f2-sparse-1d",
    ] {
        frames.push(cases::read("z4ai", &format!("{name}.z4ai")));
    }
    frames
}

#[test]
fn every_truncation_is_refused() {
    refuses_other_lengths(&small_frames());
}

#[test]
fn every_bit_flip_gives_an_error_or_as_many_bytes() {
    let native = native();
    for frame in small_frames() {
        let truth = decompress(&Pure, &frame, 1 << 20).expect("good");
        let mut flipped = frame.clone();
        for bit in stepped(0..frame.len() * 8, 5) {
            flipped[bit / 8] ^= 1 << (bit % 8);
            let results = [
                decompress(&Pure, &flipped, 1 << 20),
                decompress(&native, &flipped, 1 << 20),
            ];
            for bytes in results.into_iter().flatten() {
                // No checksum covers widths and tails.
                assert!(bytes.len() <= truth.len() * 8, "bit {bit}");
            }
            flipped[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn containers_hold_the_families_of_their_edition_and_bytes_after_a_frame() {
    let bytes = example().repeat(20);
    let editions = [Edition::Plain, Edition::Extended];
    let cases = small_frames().into_iter();
    for (mut frame, edition) in
        cases.flat_map(|frame| editions.map(|edition| (frame.clone(), edition)))
    {
        let family = Family::recognise(&frame).expect("a frame");
        let len = Frame::parse(&frame).expect("good").decoded_len_bytes();
        let truth = decompress(&Pure, &frame, len).expect("good");
        frame.extend_from_slice(&bytes[..7]);
        match ContainedFrame::parse(&frame, len, edition) {
            Ok(stored) => {
                assert!(edition.families().contains(family));
                let mut out = vec![1; truth.len()];
                stored.decode(&Pure, &mut out).expect("decodes");
                assert!(out == truth, "{}", family.name());
                let error =
                    ContainedFrame::parse(&frame, len + 1, edition).expect_err("another length");
                assert_eq!(error.rule(), Some(Rule::ZstnDecodedLength));
            }
            Err(error) => {
                assert!(
                    !edition.families().contains(family),
                    "{}: {error}",
                    family.name()
                );
                assert_eq!(error.rule(), Some(Rule::ZstnFrameKind));
            }
        }
    }
}

#[test]
fn a_brotli_bomb_stops_at_the_promised_length() {
    let engine = native();
    let zeros = vec![0; 20 << 20];
    let mut frame = zara::encode(
        &engine,
        &zeros,
        zara::ZaraTransform::Raw(1),
        &[StreamCodec::Brotli(5)],
    );
    assert!(frame.len() < 1000);
    let at = 24 + 1;
    for (promised, rule) in [
        (1000u64, Rule::BrotliLength),
        (1 << 35, Rule::BrotliLength),
        ((20 << 20) - 1, Rule::BrotliLength),
    ] {
        frame[at..at + 8].copy_from_slice(&promised.to_le_bytes());
        let error = decompress(&engine, &frame, 1 << 40).expect_err("a lie");
        assert_eq!(error.rule(), Some(rule), "{error}");
    }
}
