//! Frames whose planes are divided into blocks of all sizes decode, block by block, to
//! the same bytes as frames whose planes are stored whole.

use zstn_core::Rule;
use zstn_core::engine::{Engine, PackEngine, ZstdCoding};
use zstn_core::entropy::blocks;
use zstn_core::frame::FrameFamily as _;
use zstn_core::frame::plane::{self, Method};
use zstn_core::frame::z4ai::{self, Frame, PlaneRecipe, Recipe, Transform};
use zstn_core::pure::Pure;
use zstn_core::transform::FloatFormat;
use zstn_tests::rng::Rng;

/// Number of elements: more than two decoding chunks, and not divisible by eight.
const ELEMENTS: usize = 300_003;

fn float(name: &str) -> Transform {
    Transform::BitField(FloatFormat::by_name(name.as_bytes()).expect("a format"))
}

/// Encodes `bytes` as a frame whose planes are stored.
fn stored(bytes: &[u8], transform: Transform) -> Vec<u8> {
    let recipe = Recipe {
        transform,
        planes: vec![PlaneRecipe::Store; transform.planes()],
    };
    z4ai::encode(&Pure, bytes, &recipe)
}

/// Re-encodes a frame with planes in blocks of the given lengths in bytes; a length of
/// 0 leaves the plane stored.
fn in_blocks(frame: &[u8], block_bytes: &[u32]) -> Vec<u8> {
    let parsed = Frame::parse(frame).expect("a frame");
    let records: u64 = parsed
        .planes()
        .iter()
        .map(|plane| plane::HEAD_BYTES as u64 + plane.stored_len_bytes())
        .sum();
    let mut at = frame.len() - usize::try_from(records).expect("in memory");
    let mut out = frame[..at].to_vec();
    for (plane, &size) in parsed.planes().iter().zip(block_bytes) {
        let len = plane.len_bytes();
        at += plane::HEAD_BYTES;
        let raw = &frame[at..][..usize::try_from(len).expect("in memory")];
        at += raw.len();
        if size == 0 {
            out.extend(plane::head(Method::Store, len, len));
            out.extend(raw);
            continue;
        }
        let blocks: Vec<Vec<u8>> = raw
            .chunks(size as usize)
            .map(|block| {
                let mut coded = Vec::new();
                Pure.zstd_encode(block, ZstdCoding::Huffman, &mut coded);
                coded
            })
            .collect();
        let lens: Vec<u32> = blocks
            .iter()
            .map(|block| u32::try_from(block.len()).expect("small"))
            .collect();
        let payload = [blocks::table(size, &lens), blocks.concat()].concat();
        out.extend(plane::head(Method::Blocks, len, payload.len() as u64));
        out.extend(payload);
    }
    out
}

fn decoded<E: Engine>(engine: &E, frame: &[u8]) -> zstn_core::Result<Vec<u8>> {
    Frame::parse(frame)?.decompress(engine)
}

fn check(transform: Transform, bytes: &[u8], all_sizes: &[&[u32]]) {
    let whole = stored(bytes, transform);
    for sizes in all_sizes {
        let frame = in_blocks(&whole, sizes);
        assert!(
            decoded(&Pure, &frame).expect("decoded") == bytes,
            "{sizes:?}"
        );
        let native = zstn::Engine::new(2).expect("threads");
        assert!(
            decoded(&native, &frame).expect("decoded") == bytes,
            "{sizes:?}"
        );
    }
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    // Three bits of each byte vary and the others are zero, so that blocks are
    // compressed.
    Rng(seed)
        .bytes(len)
        .iter()
        .map(|byte| byte & 0x91)
        .collect()
}

#[test]
fn floats_of_two_bytes() {
    let mut bytes = noise(1, 2 * ELEMENTS);
    check(
        float("bfloat16"),
        &bytes,
        &[
            &[0, 4096, 0],
            &[512, 4096, 4096],
            &[4096, 65_536, 1000],
            &[16_384, 131_072, 131_072],
            &[1, 200_000, 100_000],
            &[40_000, 300_000, 400_000],
            &[8, 7000, 24],
        ],
    );
    // A tail after the last whole element.
    bytes.push(7);
    check(
        float("float16"),
        &bytes,
        &[&[0, 0, 0], &[512, 4096, 100_001], &[0, 65_536, 1]],
    );
}

#[test]
fn floats_of_four_bytes_whose_mantissas_have_three_parts() {
    let bytes = noise(2, 4 * 262_144);
    check(
        float("float32"),
        &bytes,
        &[
            &[0, 65_536, 65_536],
            // Decoding chunks do not end at block boundaries.
            &[4096, 65_536, 100_000],
            &[32_768, 262_144, 262_144],
            &[0, 0, 786_432],
            &[0, 131_072, 500_000],
        ],
    );
}

#[test]
fn bytes_of_elements_of_all_widths() {
    for (width, sizes) in [
        (1, &[4096][..]),
        (2, &[65_536, 4096]),
        (3, &[1000, 131_072, 0]),
        (4, &[0, 131_072, 65_536, 262_144]),
    ] {
        let bytes = noise(3, width * ELEMENTS);
        let width = width.to_le_bytes()[0];
        check(Transform::BytePlane(width), &bytes, &[sizes]);
    }
}

#[test]
fn a_value_out_of_range_is_found_in_every_piece() {
    let bytes = noise(4, 2 * ELEMENTS);
    let whole = stored(&bytes, float("bfloat16"));
    for element in [0, 131_071, 131_072, 262_144, ELEMENTS - 1] {
        let mut wide = whole.clone();
        // The mantissas, of seven bits each, are at the end.
        let at = wide.len() - ELEMENTS + element;
        wide[at] |= 0x80;
        let frame = in_blocks(&wide, &[0, 65_536, 65_536]);
        let refusal = decoded(&Pure, &frame).expect_err("refused");
        assert_eq!(refusal.rule(), Some(Rule::FrameFieldRange));
    }
}
