//! Frames for plans, of generated weights and of vectors.

use zstn_core::TensorRef;
use zstn_core::dtype::Dtype;
use zstn_core::engine::ZstdCoding;
use zstn_core::entropy::rans::encode_shared;
use zstn_core::frame::plane::Method;
use zstn_core::frame::select::{Effort, EncodeOptions};
use zstn_core::frame::turbo::TurboTransform;
use zstn_core::frame::z4ai::{self, BlockCodecs, Codec, PlaneRecipe, Recipe, Transform};
use zstn_core::frame::{lattice, palette, sparse};
use zstn_core::pure::Pure;
use zstn_core::transform::FloatFormat;
use zstn_tests::rng::Rng;
use zstn_tests::{cases, native};

use crate::rans;

/// Returns normally distributed weights of a dtype.
pub fn weights(rng: &mut Rng, dtype: Dtype, count: usize) -> Vec<u8> {
    #[allow(clippy::cast_possible_truncation)]
    let mut value = || rng.normal(0.02) as f32;
    match dtype {
        Dtype::Bf16 => rng.bf16_weights(count),
        Dtype::F16 => (0..count)
            .flat_map(|_| half::f16::from_f32(value()).to_le_bytes())
            .collect(),
        Dtype::F32 => (0..count).flat_map(|_| value().to_le_bytes()).collect(),
        _ => (0..count).map(|_| e4m3(value() * 500.0)).collect(),
    }
}

/// Rounds a number towards zero to a float of 4 exponent and 3 mantissa bits.
fn e4m3(value: f32) -> u8 {
    let bits = value.to_bits();
    let sign = (bits >> 24 & 0x80).to_le_bytes()[0];
    let scaled = (bits & 0x7FFF_FFFF).saturating_sub(120 << 23) >> 20;
    sign | scaled.min(0x7E).to_le_bytes()[0]
}

/// Returns frames of `count` weights for every transform that a device joins and every
/// codec, with a name and the decoded bytes.
pub fn frames_of_all_codecs(count: usize) -> Vec<(String, Vec<u8>, Vec<u8>)> {
    const HUFFMAN: BlockCodecs = BlockCodecs::HUFFMAN;
    const CODECS: [&[Codec]; 7] = [
        &[],
        &[Codec::Blocks(HUFFMAN)],
        &[Codec::Zstd(ZstdCoding::Huffman)],
        &[Codec::Zstd(ZstdCoding::Search(3))],
        &[Codec::Rans],
        &[Codec::RansAdaptive(1 << 11)],
        &[Codec::RansOrder1],
    ];
    let float = |name: &str| Transform::BitField(FloatFormat::by_name(name.as_bytes()).unwrap());
    let mut rng = Rng(19);
    let mut frames = Vec::new();
    for (dtype, transform) in [
        (Dtype::F8E4M3, Transform::Opaque),
        (Dtype::Bf16, Transform::BytePlane(2)),
        (Dtype::F32, Transform::BytePlane(4)),
        (Dtype::Bf16, float("bfloat16")),
        (Dtype::F16, float("float16")),
        (Dtype::F32, float("float32")),
    ] {
        let mut bytes = weights(&mut rng, dtype, count);
        // Half an element.
        bytes.extend_from_slice(&[1, 2][..transform.item_bytes() / 2]);
        for codecs in CODECS {
            let planes = (0..transform.planes()).map(|plane| match codecs {
                [] => PlaneRecipe::Store,
                // The host decodes at most one plane.
                [Codec::RansOrder1] if plane != 1 => PlaneRecipe::Store,
                _ => PlaneRecipe::Smallest(codecs),
            });
            let recipe = Recipe {
                transform,
                planes: planes.collect(),
            };
            let frame = z4ai::encode(&Pure, &bytes, &recipe);
            frames.push((format!("{transform:?} {codecs:?}"), frame, bytes.clone()));
        }
    }
    frames
}

/// Returns palette and sparse frames of `count` elements of every width, and a plane of
/// several rANS chunks with one table, with a name and the decoded bytes.
pub fn other_frames(count: usize) -> Vec<(String, Vec<u8>, Vec<u8>)> {
    let mut rng = Rng(29);
    let mut frames = Vec::new();
    let element = |value: u64| {
        value
            .wrapping_add(1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .to_le_bytes()
    };
    const HUFFMAN: ZstdCoding = ZstdCoding::Huffman;
    let codings = [1, 2, 4, 8].map(|width| (width, HUFFMAN));
    for (width, coding) in codings.into_iter().chain([(4, ZstdCoding::Search(3))]) {
        let mut tensor = |value: &mut dyn FnMut(u64, &mut Rng) -> u64| {
            let elements = (0..count as u64).map(|k| element(value(k, &mut rng)));
            let elements = elements.flat_map(|bytes| bytes.into_iter().take(width.into()));
            // Half an element.
            let tail = (1..=width / 2).collect::<Vec<u8>>();
            elements.chain(tail).collect::<Vec<u8>>()
        };
        // All values of the last palette are different.
        for distinct in [1, 16, 300, u64::MAX] {
            let bytes = tensor(&mut |k, rng| match distinct {
                u64::MAX => k,
                _ => (rng.next_u64() % distinct).min(rng.next_u64() % distinct),
            });
            let frame = match width {
                1 => None,
                _ => palette::encode(&Pure, &bytes, width, u32::MAX, &[coding]),
            };
            let name = format!("palette of {distinct}, {width} bytes, {coding:?}");
            frames.extend(frame.map(|frame| (name, frame, bytes)));
        }
        for (zeros, transform) in [
            (2, TurboTransform::BytePlane),
            (2, TurboTransform::Opaque),
            (100, TurboTransform::BytePlane),
            (1, TurboTransform::Opaque),
        ] {
            // The element of this number is zero.
            let bytes = tensor(&mut |_, rng| match rng.next_u64() % zeros {
                0 => u64::MAX,
                _ => rng.next_u64() % 50,
            });
            let frame = sparse::encode(&Pure, &bytes, width, transform, &[coding]);
            let name = format!("1 zero of {zeros}, {width} bytes, {transform:?} {coding:?}");
            frames.push((name, frame, bytes));
        }
    }
    // Chunks with equal bytes have equal streams and the table of all of them.
    const CHUNKS: u16 = 19;
    let chunk = weights(&mut rng, Dtype::F8E4M3, (count / 16) | 1);
    let single = encode_shared(&Pure, &chunk);
    let (table, stream) = single[8..].split_at(512);
    let bytes = chunk.repeat(CHUNKS.into());
    let mut payload = (bytes.len() as u64 | 1 << 63).to_le_bytes().to_vec();
    payload.extend_from_slice(&CHUNKS.to_le_bytes());
    payload.extend_from_slice(table);
    let stream_len = u32::try_from(stream.len()).expect("a short stream");
    payload.extend(stream_len.to_le_bytes().repeat(CHUNKS.into()));
    payload.extend(stream.repeat(CHUNKS.into()));
    let frame = rans::frame(Method::Rans, bytes.len() as u64, &payload);
    frames.push(("rANS chunks".into(), frame, bytes));
    frames
}

/// Returns lattice frames with a name: all vectors, and one of several tiles.
pub fn lattice_frames() -> Vec<(String, Vec<u8>)> {
    let manifest: serde_json::Value =
        serde_json::from_slice(&cases::read("zxq1", "manifest.json")).expect("JSON");
    let names = manifest["cases"].as_object().expect("cases").keys();
    let vectors = names.map(|name| (name.clone(), cases::read("zxq1", &format!("{name}.zxq1"))));
    let options = EncodeOptions::new(Effort::Balanced).extended(true);
    let bytes = lattice_elements();
    let tensor = TensorRef::new(&bytes, Dtype::Bf16, &LATTICE_SHAPE);
    let large = lattice::encode(&native(), tensor, options).expect("a lattice");
    vectors.chain([(LARGE_LATTICE.to_owned(), large)]).collect()
}

/// The name of the frame of [`lattice_elements`].
pub const LARGE_LATTICE: &str = "large";

/// The shape of [`lattice_elements`].
pub const LATTICE_SHAPE: [u64; 2] = [101, 397];

/// Returns a matrix of bfloat16 elements: each is an integer from −7 to 7 times the scale
/// of its row.
pub fn lattice_elements() -> Vec<u8> {
    let mut rng = Rng(31);
    let mut bytes = Vec::new();
    for row in 1..=101u8 {
        let scale = f32::from(row) * 0.0123;
        for _ in 0..LATTICE_SHAPE[1] {
            let integer = f32::from((rng.next_u64() % 15).to_le_bytes()[0]) - 7.0;
            bytes.extend(half::bf16::from_f32(integer * scale).to_le_bytes());
        }
    }
    bytes
}
