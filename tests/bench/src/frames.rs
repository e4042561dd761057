//! One tensor to its frame and back, the choice of how included.

use std::hint::black_box;

use zstn_core::engine::{Engine, Pure};
use zstn_core::frame::Frame;
use zstn_core::frame::select::{self, Effort};

use crate::tensors::{BF16, F16, F32, Float};
use crate::{OneThread, Stage, Work};

/// Tensors of all floats, packed with the default effort and decoded by both
/// engines, and what the other efforts take.
#[must_use]
pub fn frames() -> Vec<Stage> {
    let mut stages = Vec::new();
    for float in [BF16, F16, F32] {
        stages.push(encoding(float, Effort::Balanced, "encode"));
        stages.push(decoding(float, "decode, Pure", || Pure));
        stages.push(decoding(float, "decode, Native", OneThread::new));
    }
    stages.push(encoding(BF16, Effort::Fast, "encode, fast"));
    stages
}

fn encode(engine: &OneThread, float: Float, tensor: &[u8], effort: Effort) -> Vec<u8> {
    select::encode(engine, tensor, Some(float.dtype), effort)
}

fn encoding(float: Float, effort: Effort, what: &str) -> Stage {
    let name = format!("frame, {}: {what}", float.name);
    Stage::new(name, move |tensor_bytes| {
        let engine = OneThread::new();
        let tensor = float.tensor(tensor_bytes);
        Work::new(tensor.len(), move || {
            black_box(encode(&engine, float, black_box(&tensor), effort));
        })
    })
}

fn decoding<E: Engine + 'static>(
    float: Float,
    what: &str,
    engine: impl Fn() -> E + Send + Sync + 'static,
) -> Stage {
    let name = format!("frame, {}: {what}", float.name);
    Stage::new(name, move |tensor_bytes| {
        let mut tensor = float.tensor(tensor_bytes);
        let frame = encode(&OneThread::new(), float, &tensor, Effort::Balanced);
        let engine = engine();
        Work::new(tensor.len(), move || {
            let parsed = Frame::parse(black_box(&frame)).expect("our frame");
            parsed.decode(&engine, &mut tensor).expect("our frame");
            black_box(&tensor);
        })
    })
}
