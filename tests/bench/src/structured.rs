//! Stages that split and join tensors with few distinct values or many zeros.

use std::hint::black_box;

use zstn_core::transform::{palette, sparse};

use crate::tensors::{BF16, F32, Float};
use crate::{Stage, Work};

/// Returns the stages for palettes and sparse elements of floats.
#[must_use]
pub fn structured() -> Vec<Stage> {
    let stages = [BF16, F32].map(|float| {
        [
            split_palette(float),
            join_palette(float),
            split_sparse(float),
            join_sparse(float),
        ]
    });
    stages.into_iter().flatten().collect()
}

fn split_palette(float: Float) -> Stage {
    let width = float.format.item_bytes;
    Stage::new(
        format!("palette, {}: split", float.name),
        move |tensor_bytes| {
            let tensor = float.tensor_of_few_values(tensor_bytes);
            Work::new(tensor.len(), move || {
                black_box(palette::split(black_box(&tensor), width, 256));
            })
        },
    )
}

fn join_palette(float: Float) -> Stage {
    let width = float.format.item_bytes;
    Stage::new(
        format!("palette, {}: join", float.name),
        move |tensor_bytes| {
            let mut tensor = float.tensor_of_few_values(tensor_bytes);
            let (values, index) = palette::split(&tensor, width, 256).expect("few values");
            let bytes = values.iter().map(|value| value.to_le_bytes());
            let codebook: Vec<u8> = bytes
                .flat_map(|value| value.into_iter().take(width))
                .collect();
            Work::new(tensor.len(), move || {
                palette::join(black_box(&index), 1, &codebook, width, &mut tensor)
                    .expect("within the codebook");
                black_box(&tensor);
            })
        },
    )
}

fn split_sparse(float: Float) -> Stage {
    let width = float.format.item_bytes;
    Stage::new(
        format!("sparse, {}: split", float.name),
        move |tensor_bytes| {
            let tensor = float.tensor_half_zero(tensor_bytes);
            Work::new(tensor.len(), move || {
                black_box(sparse::split(black_box(&tensor), width));
            })
        },
    )
}

fn join_sparse(float: Float) -> Stage {
    let width = float.format.item_bytes;
    Stage::new(
        format!("sparse, {}: join", float.name),
        move |tensor_bytes| {
            let mut tensor = float.tensor_half_zero(tensor_bytes);
            let (bitmap, values) = sparse::split(&tensor, width);
            Work::new(tensor.len(), move || {
                sparse::join(black_box(&bitmap), &values, width, &mut tensor);
                black_box(&tensor);
            })
        },
    )
}
