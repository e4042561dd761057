//! Stages that encode a tensor to a frame, including the encoder's choice, and decode
//! it.

use std::hint::black_box;
use zstn_core::TensorRef;

use zstn_core::engine::Engine;
use zstn_core::frame::Frame;
use zstn_core::frame::select::{self, Effort};
use zstn_core::pure::Pure;

use crate::tensors::{BF16, F16, F32, Float};
use crate::{OneThread, Stage, Work};

/// Length in bytes of the longest bfloat16 tensor whose planes are short enough for
/// rANS.
const SMALL_BYTES: usize = 1 << 20;

/// A type of tensor.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    float: Float,
    tensor: fn(usize) -> Vec<u8>,
}

const KINDS: [Kind; 6] = [
    Kind {
        name: "BF16",
        float: BF16,
        tensor: |len_bytes| BF16.tensor(len_bytes),
    },
    Kind {
        name: "F16",
        float: F16,
        tensor: |len_bytes| F16.tensor(len_bytes),
    },
    Kind {
        name: "F32",
        float: F32,
        tensor: |len_bytes| F32.tensor(len_bytes),
    },
    // A tensor like most matrices of small models, whose exponents are coded by rANS.
    Kind {
        name: "small BF16 for rANS",
        float: BF16,
        tensor: |len_bytes| BF16.tensor_of_one_scale(len_bytes.min(SMALL_BYTES)),
    },
    Kind {
        name: "BF16 of 15 values",
        float: BF16,
        tensor: |len_bytes| BF16.tensor_of_few_values(len_bytes),
    },
    Kind {
        name: "BF16, half zeros",
        float: BF16,
        tensor: |len_bytes| BF16.tensor_half_zero(len_bytes),
    },
];

/// Returns the stages for tensors of all float formats: packed with the default effort
/// and decoded by both engines, and packed with the lowest effort.
#[must_use]
pub fn frames() -> Vec<Stage> {
    let mut stages = Vec::new();
    for kind in KINDS {
        stages.push(encoding(kind, Effort::Balanced, "encode"));
        stages.push(decoding(kind, "decode, Pure", || Pure));
        stages.push(decoding(kind, "decode, Native", OneThread::new));
    }
    stages.push(encoding(KINDS[0], Effort::Fast, "encode, fast"));
    stages
}

fn encode(engine: &OneThread, float: Float, tensor: &[u8], effort: Effort) -> Vec<u8> {
    select::encode(engine, TensorRef::flat(tensor, Some(float.dtype)), effort)
}

fn encoding(kind: Kind, effort: Effort, what: &str) -> Stage {
    let name = format!("frame, {}: {what}", kind.name);
    Stage::new(name, move |tensor_bytes| {
        let engine = OneThread::new();
        let tensor = (kind.tensor)(tensor_bytes);
        Work::new(tensor.len(), move || {
            black_box(encode(&engine, kind.float, black_box(&tensor), effort));
        })
    })
}

fn decoding<E: Engine + 'static>(
    kind: Kind,
    what: &str,
    engine: impl Fn() -> E + Send + Sync + 'static,
) -> Stage {
    let name = format!("frame, {}: {what}", kind.name);
    Stage::new(name, move |tensor_bytes| {
        let mut tensor = (kind.tensor)(tensor_bytes);
        let frame = encode(&OneThread::new(), kind.float, &tensor, Effort::Balanced);
        let engine = engine();
        Work::new(tensor.len(), move || {
            let parsed = Frame::parse(black_box(&frame)).expect("our frame");
            parsed.decode(&engine, &mut tensor).expect("our frame");
            black_box(&tensor);
        })
    })
}
