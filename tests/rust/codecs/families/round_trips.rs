//! The output of every encoder decodes to the original bytes.

use proptest::prelude::*;
use zstn_core::engine::ZstdCoding;
use zstn_core::frame::zara::StreamCodec;
use zstn_core::frame::{chunked, palette, sparse, turbo, zara};
use zstn_tests::rng::Rng;

use super::{CODINGS, bit_pack, comes_back, float, native};

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
