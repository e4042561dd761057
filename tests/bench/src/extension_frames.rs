//! Frames that only zstn reads: differences from a base, low-rank predictions, and
//! products of a grid and scales.

use std::hint::black_box;

use half::bf16;
use zstn_core::TensorRef;
use zstn_core::dtype::Dtype;
use zstn_core::frame::FrameFamily as _;
use zstn_core::frame::difference::{self, Difference, low_rank};
use zstn_core::frame::lattice;
use zstn_core::frame::select::{Effort, EncodeOptions};

use crate::{BF16, F32, Float, ROW};
use crate::{OneThread, Stage, Work};
use zstn_tests::rng::Rng;

const SEED: u64 = 23;
/// Rank of the merged adapter.
const RANK: usize = 8;
/// Number of four-bit weights that share a scale.
const GROUP: usize = 128;

/// How much a tensor differs from its base.
#[derive(Debug, Clone, Copy)]
struct Change {
    name: &'static str,
    float: Float,
    /// Standard deviation of the change of an element. The elements of a typical row
    /// have a standard deviation of 0.02.
    deviation: f64,
}

/// A change as small as that of a few hundred training steps: in bfloat16, most
/// elements stay unchanged.
const LIGHT: Change = Change {
    name: "light BF16",
    float: BF16,
    deviation: 0.02 / 1000.0,
};
/// Most elements change by several bfloat16 steps.
const HEAVY: Change = Change {
    name: "heavy BF16",
    float: BF16,
    deviation: 0.02 / 10.0,
};
const SINGLE: Change = Change {
    name: "F32",
    float: F32,
    deviation: 0.02 / 1000.0,
};

/// Weights of few bits, multiplied by their scales.
#[derive(Debug, Clone, Copy)]
struct Quantised {
    name: &'static str,
    /// The largest integer of the grid.
    largest: f64,
    /// Number of elements that share a scale.
    group: usize,
}

const QUANTISED: [Quantised; 2] = [
    Quantised {
        name: "BF16 of int4 in groups",
        largest: 7.0,
        group: GROUP,
    },
    Quantised {
        name: "BF16 of int8 a row",
        largest: 127.0,
        group: ROW,
    },
];

/// Returns the stages for `ZXD1` and `ZXQ1` frames, for the prediction by factors, and
/// for detecting that plain weights are not on a grid.
#[must_use]
pub fn extensions() -> Vec<Stage> {
    let mut stages = Vec::new();
    for change in [LIGHT, HEAVY, SINGLE] {
        stages.push(encode_difference(change));
        stages.push(decode_difference(change));
    }
    stages.push(predict());
    for kind in QUANTISED {
        stages.push(decode_lattice(kind));
    }
    stages.push(reject_lattice());
    stages
}

fn shape(tensor: &[u8], float: Float) -> [u64; 2] {
    [
        (tensor.len() / float.format.item_bytes / ROW) as u64,
        ROW as u64,
    ]
}

impl Change {
    /// Returns a base and the changed tensor. Both are rounded from single precision,
    /// so that small changes appear only where they cross a rounding boundary.
    fn pair(self, len_bytes: usize) -> [Vec<u8>; 2] {
        let elements = len_bytes / self.float.format.item_bytes;
        let base = F32.tensor(elements * F32.format.item_bytes);
        let mut rng = Rng(SEED);
        let changes: Vec<f64> = (0..1 << 16).map(|_| rng.normal(self.deviation)).collect();
        let values = base.as_chunks::<4>().0.iter();
        let values: Vec<f32> = values.map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let moved = values.iter().map(|value| {
            let [low, high, ..] = rng.next_u64().to_le_bytes();
            let change = changes[usize::from(u16::from_le_bytes([low, high]))];
            #[allow(clippy::cast_possible_truncation)] // that is what f32 is
            let moved = (f64::from(*value) + change) as f32;
            moved
        });
        let moved = self.rounded(moved);
        [self.rounded(values.iter().copied()), moved]
    }

    fn rounded(self, values: impl Iterator<Item = f32>) -> Vec<u8> {
        match self.float.dtype {
            Dtype::Bf16 => values
                .flat_map(|value| bf16::from_f32(value).to_le_bytes())
                .collect(),
            _ => values.flat_map(f32::to_le_bytes).collect(),
        }
    }

    fn frame(self, engine: &OneThread, base: &[u8], current: &[u8]) -> Vec<u8> {
        let shape = shape(current, self.float);
        let tensor = TensorRef::new(current, self.float.dtype, &shape);
        let options = EncodeOptions::new(Effort::Balanced);
        difference::encode(engine, tensor, base, options).expect("floats of one length")
    }
}

fn encode_difference(change: Change) -> Stage {
    let name = format!("difference, {}: encode", change.name);
    Stage::new(name, move |tensor_bytes| {
        let engine = OneThread::new();
        let [base, current] = change.pair(tensor_bytes);
        Work::new(current.len(), move || {
            black_box(change.frame(&engine, black_box(&base), black_box(&current)));
        })
    })
}

/// Decoding includes the digest of the base, which every decoder compares.
fn decode_difference(change: Change) -> Stage {
    let name = format!("difference, {}: decode", change.name);
    Stage::new(name, move |tensor_bytes| {
        let engine = OneThread::new();
        let [base, current] = change.pair(tensor_bytes);
        let frame = change.frame(&engine, &base, &current);
        Work::new(current.len(), move || {
            let difference = Difference::parse(black_box(&frame)).expect("our frame");
            let decoded = difference.decode(&engine, black_box(&base));
            black_box(decoded.expect("its base"));
        })
    })
}

/// Returns a base and the result of merging an adapter into it.
fn merged(rows: usize) -> [Vec<u8>; 2] {
    let mut rng = Rng(SEED);
    let mut factors = |count: usize| {
        let values = (0..count).map(|_| rng.normal(0.05));
        values.collect::<Vec<f64>>()
    };
    let (left, right) = (factors(rows * RANK), factors(RANK * ROW));
    let base = BF16.tensor(rows * ROW * BF16.format.item_bytes);
    let elements = base.as_chunks::<2>().0.iter().enumerate();
    let current = elements.flat_map(|(number, bytes)| {
        let (row, column) = (number / ROW, number % ROW);
        let terms = (0..RANK).map(|i| left[row * RANK + i] * right[i * ROW + column]);
        let value = f64::from(bf16::from_le_bytes(*bytes)) + terms.sum::<f64>();
        bf16::from_f64(value).to_le_bytes()
    });
    let current = current.collect();
    [base, current]
}

fn predict() -> Stage {
    Stage::new("low rank, BF16 of rank 8: predict", |tensor_bytes| {
        let rows = tensor_bytes / BF16.format.item_bytes / ROW;
        let [base, current] = merged(rows);
        let shape = shape(&base, BF16);
        let tensor = TensorRef::new(&current, BF16.dtype, &shape);
        let found = low_rank::fit(&OneThread::new(), tensor, &base).expect("a merged adapter");
        let mut out = current;
        Work::new(base.len(), move || {
            let elements = 0..out.len() / BF16.format.item_bytes;
            found.predict(black_box(&base), elements, &mut out);
            black_box(&out);
        })
    })
}

impl Quantised {
    fn tensor(self, len_bytes: usize) -> Vec<u8> {
        let plain = BF16.tensor(len_bytes);
        let plain = plain.as_chunks::<2>().0.iter();
        let values: Vec<f32> = plain
            .map(|bytes| bf16::from_le_bytes(*bytes).to_f32())
            .collect();
        let groups = values.chunks(self.group).flat_map(|group| {
            let most = group
                .iter()
                .fold(0.0f32, |most, value| most.max(value.abs()));
            let scale = bf16::from_f64(f64::from(most) / self.largest);
            group.iter().map(move |value| {
                let integer = (value / scale.to_f32()).round();
                bf16::from_f32(integer * scale.to_f32())
            })
        });
        groups.flat_map(bf16::to_le_bytes).collect()
    }
}

fn decode_lattice(kind: Quantised) -> Stage {
    let name = format!("lattice, {}: decode", kind.name);
    Stage::new(name, move |tensor_bytes| {
        let engine = OneThread::new();
        let mut tensor = kind.tensor(tensor_bytes);
        let shape = shape(&tensor, BF16);
        let options = EncodeOptions::new(Effort::Balanced).extended(true);
        let frame = lattice::encode(
            &engine,
            TensorRef::new(&tensor, BF16.dtype, &shape),
            options,
        );
        let frame = frame.expect("on a grid");
        Work::new(tensor.len(), move || {
            let parsed = lattice::Frame::parse(black_box(&frame)).expect("our frame");
            parsed.decode(&engine, &mut tensor).expect("our frame");
            black_box(&tensor);
        })
    })
}

/// The cost that `--extended` adds to packing plain weights.
fn reject_lattice() -> Stage {
    Stage::new("lattice, plain BF16: reject", |tensor_bytes| {
        let engine = OneThread::new();
        let tensor = BF16.tensor(tensor_bytes);
        let shape = shape(&tensor, BF16);
        let options = EncodeOptions::new(Effort::Balanced).extended(true);
        Work::new(tensor.len(), move || {
            let tensor = TensorRef::new(black_box(&tensor), BF16.dtype, &shape);
            assert_eq!(lattice::encode(&engine, tensor, options), None);
        })
    })
}
