//! Encoded tensors decode to the same bytes with every engine.

use proptest::prelude::*;
use zstn_core::TensorRef;
use zstn_core::dtype::Dtype;
use zstn_core::frame::difference::{Difference, encode};
use zstn_core::frame::select::{Effort, EncodeOptions};
use zstn_core::pure::Pure;
use zstn_tests::rng::Rng;

use super::{DTYPES, frame, native, trained};

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
