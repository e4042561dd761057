//! Stages for the statistics of tensors, which packers compute along the way.

use std::hint::black_box;

use zstn_core::TensorRef;
use zstn_core::statistics::Statistics;

use crate::tensors::{BF16, F16, F32, ROW};
use crate::{OneThread, Stage, Work};

/// Returns the stages that compute the statistics of a matrix in every float format.
#[must_use]
pub fn statistics() -> Vec<Stage> {
    let stage = |float: crate::tensors::Float| {
        Stage::new(format!("statistics, {}", float.name), move |tensor_bytes| {
            let tensor = float.tensor(tensor_bytes);
            let bytes = float.dtype.len_bytes().expect("whole bytes");
            let shape = [(tensor.len() / bytes / ROW) as u64, ROW as u64];
            Work::new(tensor.len(), move || {
                let tensor = TensorRef::new(black_box(&tensor), float.dtype, &shape);
                black_box(Statistics::of(&OneThread::new(), tensor));
            })
        })
    };
    [BF16, F16, F32].map(stage).into()
}
