//! Stages that split buffers into planes and join them again.

use std::hint::black_box;

use zstn_core::transform::byteplane;

use crate::tensors::{BF16, F16, F32, Float};
use crate::{Stage, Work};

/// Returns the stages that split and join byte planes and bit fields.
#[must_use]
pub fn planes() -> Vec<Stage> {
    let byte_planes = [BF16, F32].map(|float| [split_bytes(float), join_bytes(float)]);
    let bit_fields = [BF16, F16, F32].map(|float| [split_fields(float), join_fields(float)]);
    byte_planes
        .into_iter()
        .chain(bit_fields)
        .flatten()
        .collect()
}

fn split_bytes(float: Float) -> Stage {
    let width = float.format.item_bytes;
    Stage::new(
        format!("byte planes, {}: split", float.name),
        move |tensor_bytes| {
            let tensor = float.tensor(tensor_bytes);
            let mut planes = vec![vec![0; tensor.len() / width]; width];
            Work::new(tensor.len(), move || {
                for (number, plane) in planes.iter_mut().enumerate() {
                    byteplane::split(black_box(&tensor), width, number, 0, plane);
                }
                black_box(&planes);
            })
        },
    )
}

fn join_bytes(float: Float) -> Stage {
    let width = float.format.item_bytes;
    Stage::new(
        format!("byte planes, {}: join", float.name),
        move |tensor_bytes| {
            let mut tensor = float.tensor(tensor_bytes);
            let planes: Vec<Vec<u8>> = (0..width)
                .map(|number| {
                    let mut plane = vec![0; tensor.len() / width];
                    byteplane::split(&tensor, width, number, 0, &mut plane);
                    plane
                })
                .collect();
            Work::new(tensor.len(), move || {
                let views: Vec<&[u8]> = planes.iter().map(Vec::as_slice).collect();
                byteplane::join(black_box(&views), &mut tensor);
                black_box(&tensor);
            })
        },
    )
}

fn split_fields(float: Float) -> Stage {
    Stage::new(
        format!("bit fields, {}: split", float.name),
        move |tensor_bytes| {
            let tensor = float.tensor(tensor_bytes);
            let mut planes = float.planes(&tensor);
            Work::new(tensor.len(), move || {
                for (number, plane) in planes.iter_mut().enumerate() {
                    float.format.split(black_box(&tensor), number, 0, plane);
                }
                black_box(&planes);
            })
        },
    )
}

fn join_fields(float: Float) -> Stage {
    Stage::new(
        format!("bit fields, {}: join", float.name),
        move |tensor_bytes| {
            let mut tensor = float.tensor(tensor_bytes);
            let planes = float.planes(&tensor);
            Work::new(tensor.len(), move || {
                let views = planes.each_ref().map(Vec::as_slice);
                let fields = float.format.fields(black_box(views));
                float.format.join(&fields, &mut tensor).expect("in range");
                black_box(&tensor);
            })
        },
    )
}
