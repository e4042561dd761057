//! Encoder of a frame. It is used if a lattice is detected in a tensor.

mod band;
mod detect;
mod distinct;
mod fit;
mod group;
mod kind;
mod sheet;
mod write;

use alloc::vec::Vec;

use crate::TensorRef;
use crate::engine::PackEngine;
use crate::float::FloatType;
use crate::frame::FrameFamily as _;
use crate::frame::select::EncodeOptions;

/// Tensors with fewer elements are not examined.
const MIN_ELEMENTS: usize = 1024;

/// Returns the frame of `tensor`, or `None` if no lattice was found that restores
/// every bit.
#[must_use]
pub fn encode<E: PackEngine>(
    engine: &E,
    tensor: TensorRef,
    options: EncodeOptions,
) -> Option<Vec<u8>> {
    let float = FloatType::from_dtype(tensor.dtype?)?;
    let count = tensor.bytes.len() / float.len_bytes();
    let elements = tensor
        .shape
        .iter()
        .try_fold(1, |all: u64, &n| all.checked_mul(n))?;
    let is_whole =
        (elements.checked_mul(float.len_bytes() as u64)) == Some(tensor.bytes.len() as u64);
    if count < MIN_ELEMENTS || !is_whole {
        return None;
    }
    let found = detect::all(tensor.bytes, float, tensor.shape);
    found.iter().find_map(|found| {
        let bytes = tensor.bytes;
        let coded = band::code(engine, bytes, float, found)?;
        let frame = write::frame(engine, bytes, float, found, coded, options);
        // Every symbol has already been compared with its element. Decoding the
        // finished frame costs little more, and nothing else would reveal a
        // mistake before the original is discarded.
        let decoded = super::Frame::parse(&frame).and_then(|frame| frame.decompress(engine));
        decoded
            .is_ok_and(|decoded| decoded == bytes)
            .then_some(frame)
    })
}
