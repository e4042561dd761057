//! Difference frames (`ZXD1`): round trips with every engine, and ranges decoded from
//! the head of a frame and some of its blocks.

mod damage;
pub mod vectors;

use proptest::prelude::*;
use zstn_core::bytes::part;
use zstn_core::dtype::Dtype;
use zstn_core::engine::PackEngine;
use zstn_core::frame::difference::{Difference, Directory, FIXED_BYTES, encode, head_len_bytes};
use zstn_core::frame::select::{Effort, EncodeOptions};
use zstn_core::pure::Pure;
use zstn_core::{Error, ErrorKind, Result, Rule, TensorRef};
use zstn_tests::frames::DifferenceFrame;
use zstn_tests::native;
use zstn_tests::rng::Rng;

const DTYPES: [Dtype; 3] = [Dtype::Bf16, Dtype::F16, Dtype::F32];

pub fn frame(
    engine: &impl PackEngine,
    dtype: Dtype,
    shape: &[u64],
    base: &[u8],
    current: &[u8],
) -> Vec<u8> {
    let tensor = TensorRef::new(current, dtype, shape);
    let options = EncodeOptions::new(Effort::Balanced);
    encode(engine, tensor, base, options).expect("a tensor of floats")
}

fn decode(frame: &[u8], base: &[u8]) -> Result<Vec<u8>> {
    Difference::parse(frame)?.decode(&Pure, base)
}

fn refusal(frame: &[u8], base: &[u8]) -> Error {
    decode(frame, base).expect_err("a damaged frame")
}

/// Returns little-endian weights and the same weights after training. The magnitude of
/// the changes differs between runs of 100 elements.
pub fn trained(rng: &mut Rng, dtype: Dtype, count: usize, change: f64) -> (Vec<u8>, Vec<u8>) {
    let mut base = Vec::new();
    let mut current = Vec::new();
    for i in 0..count {
        let scale = f64::from(1 + u32::try_from(i / 100 % 7).expect("small"));
        let weight = rng.normal(0.02);
        let moved = weight + rng.normal(0.02) * scale * change;
        base.extend(element(dtype, weight));
        current.extend(element(dtype, moved));
    }
    (base, current)
}

/// Encodes a float. For 16-bit dtypes, the value is truncated rather than rounded.
#[allow(clippy::cast_possible_truncation)]
fn element(dtype: Dtype, value: f64) -> Vec<u8> {
    let bits = (value as f32).to_bits();
    match dtype {
        Dtype::F32 => bits.to_le_bytes().to_vec(),
        Dtype::Bf16 => ((bits >> 16) as u16).to_le_bytes().to_vec(),
        _ => {
            let magnitude = ((bits & 0x7FFF_FFFF) >> 13).saturating_sub(112 << 10);
            ((bits >> 16 & 0x8000) as u16 | magnitude.min(0x7BFF) as u16)
                .to_le_bytes()
                .to_vec()
        }
    }
}

fn comes_back(dtype: Dtype, shape: &[u64], base: &[u8], current: &[u8]) -> Vec<u8> {
    let engine = native();
    let coded = frame(&Pure, dtype, shape, base, current);
    assert!(
        coded == frame(&engine, dtype, shape, base, current),
        "engines differ"
    );
    let difference = Difference::parse(&coded).expect("a frame");
    assert_eq!(difference.len_bytes(), current.len() as u64);
    assert!(difference.decode(&Pure, base).expect("decodes") == current);
    assert!(difference.decode(&engine, base).expect("decodes") == current);
    coded
}

/// Generates a tensor and its base, which are slightly or strongly trained, partly
/// equal, or unrelated.
fn pair() -> impl Strategy<Value = (Dtype, Vec<u64>, Vec<u8>, Vec<u8>)> {
    let shape = prop_oneof![
        (1u64..3000).prop_map(|n| vec![n]),
        (1u64..40, 1u64..200).prop_map(|(rows, columns)| vec![rows, columns]),
        (1u64..9, 1u64..9, 1u64..4, 1u64..4).prop_map(|(a, b, c, d)| vec![a, b, c, d]),
    ];
    let parts = (any::<u64>(), shape, 0..3usize, 0..6usize);
    parts.prop_map(|(seed, shape, dtype, kind)| {
        let mut rng = Rng(seed);
        let dtype = DTYPES[dtype];
        let count = usize::try_from(shape.iter().product::<u64>()).expect("small");
        let change = [0.0, 1e-4, 1e-2, 1.0, 1e-3, 0.0][kind];
        let (base, mut current) = trained(&mut rng, dtype, count, change);
        match kind {
            4 => current[..base.len() / 2].copy_from_slice(&base[..base.len() / 2]),
            5 => current = rng.bytes(base.len()),
            _ => {}
        }
        (dtype, shape, base, current)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_pair_comes_back((dtype, shape, base, current) in pair()) {
        comes_back(dtype, &shape, &base, &current);
    }
}

#[test]
fn every_pattern_comes_back_from_every_kind_of_base() {
    // Zeros, subnormals, one, infinities and NaNs of both signs.
    let bases = [
        0, 1, 0x7F, 0x80, 0x3F80, 0x7F7F, 0x7F80, 0x7F81, 0x7C00, 0x7FFF,
    ]
    .map(|b: u16| [b, b | 0x8000]);
    let patterns: Vec<u16> = (0..=u16::MAX)
        .step_by(7)
        .chain([0x8000, 0x7F80, 0xFF80, 0xFFFF])
        .collect();
    for base in bases.concat() {
        let bases: Vec<u8> = base.to_le_bytes().repeat(patterns.len());
        let currents: Vec<u8> = patterns.iter().flat_map(|p| p.to_le_bytes()).collect();
        for dtype in [Dtype::Bf16, Dtype::F16] {
            comes_back(dtype, &[patterns.len() as u64], &bases, &currents);
        }
        let bases: Vec<u8> =
            [0xA5, 0x5A, base.to_le_bytes()[0], base.to_le_bytes()[1]].repeat(patterns.len());
        let currents: Vec<u8> = patterns
            .iter()
            .flat_map(|p| [[1, 0x80], p.to_le_bytes()].concat())
            .collect();
        comes_back(Dtype::F32, &[patterns.len() as u64], &bases, &currents);
    }
}

#[test]
fn more_than_one_block_and_every_number_of_states() {
    let mut seen = Vec::new();
    for (dtype, change) in [
        (Dtype::Bf16, 0.0),
        (Dtype::Bf16, 1e-3),
        (Dtype::Bf16, 3e-3),
        (Dtype::F16, 1e-2),
        (Dtype::F32, 1e-2),
    ] {
        let (base, mut current) = trained(&mut Rng(3), dtype, 131_072 + 1003, change);
        current[0] ^= 1;
        let coded = comes_back(dtype, &[132_075 / 3, 3], &base, &current);
        seen.push(coded[7]);
    }
    assert!([3, 4, 5].iter().all(|log| seen.contains(log)), "{seen:?}");
}

#[test]
fn unchanged_tensors_and_rows_take_next_to_nothing() {
    let (base, trained) = trained(&mut Rng(8), Dtype::Bf16, 300_000, 1e-3);
    let coded = comes_back(Dtype::Bf16, &[1000, 300], &base, &base);
    assert!(coded.len() < 250, "{}", coded.len());
    // Every fourth row has been trained.
    let mut current = base.clone();
    let mut alone = Vec::new();
    for (row, place) in (0..base.len()).step_by(600).enumerate() {
        if row % 4 == 0 {
            current[place..place + 600].copy_from_slice(&trained[place..place + 600]);
            alone.extend_from_slice(&trained[place..place + 600]);
        }
    }
    let rows: Vec<u8> = base.chunks(600).step_by(4).flatten().copied().collect();
    let whole = comes_back(Dtype::Bf16, &[1000, 300], &base, &current).len();
    let part = comes_back(Dtype::Bf16, &[250, 300], &rows, &alone).len();
    assert!(
        whole < part + part / 50 + 400,
        "{whole} bytes, {part} for the trained rows"
    );
}

#[test]
fn weight_decay_is_a_function_of_the_mantissa() {
    let mut rng = Rng(11);
    let (base, trained) = trained(&mut rng, Dtype::F32, 200 * 256, 1e-3);
    let decayed: Vec<u8> = base
        .as_chunks::<4>()
        .0
        .iter()
        .flat_map(|bytes| (f32::from_le_bytes(*bytes) * 0.999_9).to_le_bytes())
        .collect();
    let mut current = decayed.clone();
    current[..20 * 1024].copy_from_slice(&trained[..20 * 1024]);
    let coded = comes_back(Dtype::F32, &[200, 256], &base, &current);
    assert_eq!(coded[6], 1, "with means");
    // Nine of ten rows cost a few bits per element, the trained rows 20.
    assert!(coded.len() < base.len() / 4, "{}", coded.len());
}

#[test]
fn scales_of_rows_make_frames_smaller() {
    let count = 256 * 512;
    let mut rng = Rng(5);
    let (base, mut current) = (rng.bf16_weights(count), Vec::new());
    for (i, bytes) in base.as_chunks::<2>().0.iter().enumerate() {
        let steps = [1, 40][i / 512 % 2];
        let step = u16::try_from(rng.next_u64() % (2 * steps + 1)).expect("small");
        let word = u16::from_le_bytes(*bytes)
            .wrapping_add(step)
            .wrapping_sub(u16::try_from(steps).expect("small"));
        current.extend(word.to_le_bytes());
    }
    let rows = comes_back(Dtype::Bf16, &[256, 512], &base, &current).len();
    let flat = comes_back(Dtype::Bf16, &[1 << 17], &base, &current).len();
    assert!(
        rows * 10 < flat * 9,
        "{rows} bytes with rows, {flat} without"
    );
}

#[test]
fn other_tensors_have_no_difference() {
    let options = EncodeOptions::new(Effort::Balanced);
    let bytes = [1; 8];
    let none = |dtype, bytes: &[u8], base: &[u8]| {
        encode(&Pure, TensorRef::flat(bytes, dtype), base, options).is_none()
    };
    assert!(none(Some(Dtype::I32), &bytes, &bytes));
    assert!(none(None, &bytes, &bytes));
    assert!(none(Some(Dtype::Bf16), &[], &[]));
    assert!(none(Some(Dtype::Bf16), &bytes, &bytes[2..]));
    assert!(none(Some(Dtype::F32), &bytes[2..], &bytes[2..]));
    assert!(!none(Some(Dtype::F32), &bytes, &bytes));
}

/// Returns a frame of three blocks: two of 4096 elements, and a shorter one.
fn small_blocks(base: &[u8], current: &[u8]) -> Vec<u8> {
    let count = base.len() / 2;
    let fields = DifferenceFrame {
        dtype: 0,
        states: 16,
        group: 100,
        block: 4096,
        contexts: [0, 95],
        codes: vec![86; count.div_ceil(100)],
        means: None,
        codings: vec![(0, 1); 96],
        low_rank: None,
    };
    fields.encode(base, current)
}

#[test]
fn any_range_comes_from_its_blocks() {
    let mut rng = Rng(1);
    let (base, current) = trained(&mut rng, Dtype::Bf16, 9001, 1e-2);
    let frame = small_blocks(&base, &current);
    let head_len = head_len_bytes(&frame[..48]).expect("a head");
    assert!(head_len > FIXED_BYTES);
    let head = part(&frame, 0..head_len);
    let directory = Directory::parse(head, current.len() as u64).expect("a head");
    assert_eq!(directory.len_bytes(), current.len() as u64);
    let edges = [0, 1, 2, 8191, 8192, 8193, 16383, 16384, 16385, 18001, 18002];
    for &start in &edges {
        for &end in edges.iter().filter(|end| **end >= start) {
            let plan = directory.plan(start..end);
            let (stored, held) = (part(&frame, plan.stored()), part(&base, plan.base()));
            let bytes = directory
                .decode(&Pure, &plan, stored, held)
                .expect("decodes");
            assert!(bytes == part(&current, start..end), "{start}..{end}");
            if start < end {
                let blocks = (end - 1) / 8192 - start / 8192 + 1;
                assert!(held.len() as u64 <= blocks * 8192);
                assert!(plan.base().end <= end + 1);
            }
        }
    }
    let plan = directory.plan(8192..8194);
    let (stored, held) = (part(&frame, plan.stored()), part(&base, plan.base()));
    assert!(stored.len() < frame.len() / 2, "one of three blocks");
    assert_eq!(held.len(), 2, "one element of the base");
    let error = directory
        .decode(&Pure, &plan, &stored[1..], held)
        .expect_err("other bytes");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let mut damaged = stored.to_vec();
    damaged[70] ^= 1;
    let error = directory
        .decode(&Pure, &plan, &damaged, held)
        .expect_err("damage");
    assert_eq!(error.rule(), Some(Rule::DifferenceBlockChecksum), "{error}");
    assert_eq!(error.offset(), Some(plan.stored().start));
}

#[test]
fn frames_of_the_encoder_have_ranges() {
    for dtype in DTYPES {
        let (base, current) = trained(&mut Rng(2), dtype, 140_000, 1e-3);
        let frame = frame(&Pure, dtype, &[1400, 100], &base, &current);
        let len_bytes = current.len() as u64;
        let difference = Difference::parse(&frame).expect("a frame");
        let head = part(&frame, 0..difference.head_len_bytes());
        let directory = Directory::parse(head, len_bytes).expect("a head");
        let width = len_bytes / 140_000;
        for rows in [0..1, 1310..1311, 1309..1400, 1399..1400] {
            let span = rows.start * 100 * width..rows.end * 100 * width;
            let plan = directory.plan(span.clone());
            let (stored, held) = (part(&frame, plan.stored()), part(&base, plan.base()));
            let bytes = directory
                .decode(&Pure, &plan, stored, held)
                .expect("decodes");
            assert!(bytes == part(&current, span), "{dtype} {rows:?}");
        }
        let error = Directory::parse(head, len_bytes + width).expect_err("another tensor");
        assert_eq!(error.rule(), Some(Rule::DeltaReference));
    }
}
