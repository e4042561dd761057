//! Difference frames with a low-rank prediction: matrices with a merged adapter,
//! rejected field values, and matrices without a low-rank change.

use half::bf16;
use proptest::prelude::*;
use zstn_core::bytes::{Cursor, index, part};
use zstn_core::dtype::Dtype;
use zstn_core::engine::PackEngine;
use zstn_core::frame::difference::low_rank::{LowRank, fit};
use zstn_core::frame::difference::{Difference, encode};
use zstn_core::frame::select::{Effort, EncodeOptions};
use zstn_core::pure::Pure;
use zstn_core::{Rule, TensorRef};
use zstn_tests::rng::Rng;

/// A matrix and the low-rank product added to it.
pub struct Merge {
    dtype: Dtype,
    pub shape: [u64; 2],
    pub base: Vec<u8>,
    pub current: Vec<u8>,
}

impl Merge {
    /// Adds the product of two thin matrices to random weights. `size` is the magnitude
    /// of the product relative to the weights.
    pub fn new(dtype: Dtype, shape: [u64; 2], rank: usize, size: f32, seed: u64) -> Self {
        let [rows, columns] = shape.map(index);
        let mut rng = Rng(seed);
        let left: Vec<f32> = (0..rows * rank).map(|_| normal(&mut rng)).collect();
        let right: Vec<f32> = (0..rank * columns).map(|_| normal(&mut rng)).collect();
        let scale = 0.02 * size / (rank.max(1) as f32).sqrt();
        let change = |row: usize, column: usize| {
            let terms = (0..rank).map(|j| left[row * rank + j] * right[j * columns + column]);
            terms.sum::<f32>() * scale
        };
        let (mut base, mut current) = (Vec::new(), Vec::new());
        for row in 0..rows {
            for column in 0..columns {
                let weight = 0.02 * normal(&mut rng);
                if dtype == Dtype::F32 {
                    base.extend(weight.to_le_bytes());
                    current.extend((weight + change(row, column)).to_le_bytes());
                } else {
                    let weight = bf16::from_f32(weight);
                    let merged = weight.to_f32() + change(row, column);
                    base.extend(weight.to_le_bytes());
                    current.extend(bf16::from_f32(merged).to_le_bytes());
                }
            }
        }
        Self {
            dtype,
            shape,
            base,
            current,
        }
    }

    fn tensor(&self) -> TensorRef<'_> {
        TensorRef::new(&self.current, self.dtype, &self.shape)
    }

    fn encode<E: PackEngine>(&self, engine: &E) -> Vec<u8> {
        let options = EncodeOptions::new(Effort::Balanced);
        encode(engine, self.tensor(), &self.base, options).expect("a difference")
    }

    /// Encodes the frame without a prediction, by presenting the tensor with three
    /// dimensions, so that it is not a matrix.
    fn encode_plain(&self) -> Vec<u8> {
        let [rows, columns] = self.shape;
        let shape = [1, rows, columns];
        let tensor = TensorRef::new(&self.current, self.dtype, &shape);
        let options = EncodeOptions::new(Effort::Balanced);
        encode(&Pure, tensor, &self.base, options).expect("a difference")
    }

    fn assert_decodes(&self, frame: &[u8]) {
        let difference = Difference::parse(frame).expect("a frame");
        let decoded = difference.decode(&Pure, &self.base).expect("decodes");
        assert!(decoded == self.current, "not the same bytes");
    }
}

/// Returns a normally distributed value.
fn normal(rng: &mut Rng) -> f32 {
    #[allow(clippy::cast_possible_truncation)] // rounded
    let value = rng.normal(1.0) as f32;
    value
}

const FLAGS_AT: usize = 6;
const LOW_RANK: u8 = 2;

#[test]
fn merged_adapters_are_found_with_their_rank() {
    for (dtype, shape, rank) in [
        (Dtype::Bf16, [192, 192], 4),
        (Dtype::Bf16, [160, 640], 8),
        (Dtype::Bf16, [640, 160], 8),
        (Dtype::F32, [192, 192], 8),
        (Dtype::F32, [160, 320], 16),
    ] {
        let merge = Merge::new(dtype, shape, rank, 0.02, 3);
        let found = fit(&Pure, merge.tensor(), &merge.base).expect("a low rank");
        assert_eq!(usize::from(found.head().rank), rank, "{dtype} {shape:?}");
        let frame = merge.encode(&Pure);
        assert_eq!(frame[FLAGS_AT], LOW_RANK);
        merge.assert_decodes(&frame);
        let plain = merge.encode_plain();
        assert_eq!(plain[FLAGS_AT], 0);
        merge.assert_decodes(&plain);
        assert!(
            frame.len() * 2 < plain.len(),
            "{dtype} {shape:?}: {} of {}",
            frame.len(),
            plain.len()
        );
    }
}

#[test]
fn sides_above_those_of_the_sample_are_extended() {
    for shape in [[1500, 96], [96, 1500]] {
        let merge = Merge::new(Dtype::Bf16, shape, 4, 0.02, 5);
        let frame = merge.encode(&Pure);
        assert_eq!(frame[FLAGS_AT], LOW_RANK);
        merge.assert_decodes(&frame);
        assert!(frame.len() * 2 < merge.encode_plain().len());
    }
}

#[test]
fn every_engine_and_number_of_threads_finds_the_same() {
    let merge = Merge::new(Dtype::Bf16, [300, 260], 6, 0.02, 8);
    let frame = merge.encode(&Pure);
    assert_eq!(frame[FLAGS_AT], LOW_RANK);
    for threads in [1, 2, 5] {
        let engine = zstn::Engine::new(threads).expect("threads");
        assert!(merge.encode(&engine) == frame, "{threads} threads");
    }
}

#[test]
fn other_changes_have_no_low_rank() {
    let shape = [192, 256];
    // A change of full rank, and no change at all.
    let full = Merge::new(Dtype::Bf16, shape, 192, 0.02, 1);
    assert!(fit(&Pure, full.tensor(), &full.base).is_none());
    let same = Merge::new(Dtype::F32, shape, 0, 0.0, 1);
    assert!(fit(&Pure, same.tensor(), &same.base).is_none());
    let merge = Merge::new(Dtype::Bf16, shape, 4, 0.02, 1);
    assert!(fit(&Pure, merge.tensor(), &merge.base).is_some());
    // Unsupported dtypes, lengths and shapes.
    let none = |dtype, shape: &[u64], base: &[u8]| {
        let tensor = TensorRef::new(&merge.current, dtype, shape);
        assert!(fit(&Pure, tensor, base).is_none(), "{dtype} {shape:?}");
    };
    none(Dtype::F16, &shape, &merge.base);
    none(Dtype::F32, &shape, &merge.base);
    none(Dtype::Bf16, &[192 * 256], &merge.base);
    none(Dtype::Bf16, &[2, 96, 256], &merge.base);
    none(Dtype::Bf16, &[8, 6144], &merge.base);
    none(Dtype::Bf16, &[192, 255], &merge.base);
    none(Dtype::Bf16, &[u64::MAX, u64::MAX], &merge.base);
    none(Dtype::Bf16, &shape, &merge.base[2..]);
}

#[test]
fn values_that_are_not_finite_come_back() {
    let mut merge = Merge::new(Dtype::F32, [192, 192], 4, 0.02, 2);
    let special = [
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        -0.0,
        f32::MAX,
        1e-45,
    ];
    for (number, value) in special.iter().cycle().take(200).enumerate() {
        let at = 4 * (number * 97 + 13);
        let side = if number % 3 == 0 {
            &mut merge.base
        } else {
            &mut merge.current
        };
        side[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    let frame = merge.encode(&Pure);
    merge.assert_decodes(&frame);
    // Every element of the base is NaN.
    let nan = f32::NAN.to_le_bytes();
    merge
        .base
        .chunks_mut(4)
        .for_each(|value| value.copy_from_slice(&nan));
    let frame = merge.encode(&Pure);
    merge.assert_decodes(&frame);
}

#[test]
fn ranges_decode_alone() {
    use zstn_core::frame::difference::Directory;
    let merge = Merge::new(Dtype::Bf16, [700, 400], 4, 0.02, 4);
    let frame = merge.encode(&Pure);
    assert_eq!(frame[FLAGS_AT], LOW_RANK);
    let len_bytes = merge.current.len() as u64;
    let directory = Directory::parse(&frame, len_bytes).expect("a head");
    for span in [
        0..2,
        801..262_145,
        262_144..262_146,
        300_000..len_bytes,
        len_bytes - 1..len_bytes,
    ] {
        let plan = directory.plan(span.clone());
        let (stored, base) = (part(&frame, plan.stored()), part(&merge.base, plan.base()));
        let decoded = directory
            .decode(&Pure, &plan, stored, base)
            .expect("decodes");
        assert!(decoded == part(&merge.current, span.clone()), "{span:?}");
    }
}

/// Returns a small example; the smallest frames of this type take a few hundred bytes.
fn small() -> (Merge, Vec<u8>) {
    let merge = Merge::new(Dtype::Bf16, [64, 64], 1, 0.05, 6);
    let frame = merge.encode(&Pure);
    assert_eq!(frame[FLAGS_AT], LOW_RANK);
    (merge, frame)
}

#[test]
fn every_cut_is_refused() {
    let (_, frame) = small();
    for len in 0..frame.len() {
        assert!(Difference::parse(&frame[..len]).is_err(), "{len}");
    }
}

#[test]
fn no_flip_decodes_to_something_else() {
    let (merge, frame) = small();
    for bit in 0..8 * frame.len() {
        let mut damaged = frame.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let decoded = Difference::parse(&damaged)
            .and_then(|difference| difference.decode(&Pure, &merge.base));
        if let Ok(decoded) = decoded {
            assert!(decoded == merge.current, "bit {bit}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn any_merge_comes_back(
        f32: bool, rows in 32u64..200, columns in 32u64..200, rank in 0usize..12,
        size in prop::sample::select(vec![0.0f32, 1e-4, 1e-3, 0.02, 1.0, 1e3]), seed: u64,
    ) {
        let dtype = if f32 { Dtype::F32 } else { Dtype::Bf16 };
        let merge = Merge::new(dtype, [rows, columns], rank, size, seed);
        let frame = merge.encode(&Pure);
        merge.assert_decodes(&frame);
        prop_assert!(frame.len() <= merge.encode_plain().len());
    }

    #[test]
    fn any_bytes_as_factors_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), elements in 0u64..300) {
        for dtype in [Dtype::Bf16, Dtype::F32] {
            match LowRank::parse(&mut Cursor::new(&bytes), dtype, elements) {
                Ok(low_rank) => {
                    let width = dtype.len_bytes().unwrap();
                    let base = vec![0x3C; index(elements) * width];
                    let mut out = vec![0; base.len()];
                    low_rank.predict(&base, 0..index(elements), &mut out);
                    let mut again = Vec::new();
                    low_rank.write(&mut again);
                    prop_assert_eq!(&again, &bytes[..again.len()]);
                }
                Err(error) => {
                    let rule = error.rule().expect("a rule");
                    let is_own = rule.code().starts_with("low_rank.");
                    prop_assert!(is_own || rule == Rule::Truncated);
                }
            }
        }
    }
}
