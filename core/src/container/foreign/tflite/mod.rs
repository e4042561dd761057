//! TensorFlow Lite models (docs/formats/tflite.md): the tensors that have
//! values. A model is a FlatBuffer, whose tables refer to each other by offsets,
//! so parsing it states which bytes are missing.

mod flatbuffer;
mod model;

pub use super::random_access::Fetched;
pub(crate) use flatbuffer::BLOCK_BYTES;
pub use model::{ParsedModel, TfliteModel, TfliteTensor, TfliteType};

/// Returns whether a file that begins with `head` is a model.
pub(crate) fn is_tflite(head: &[u8]) -> bool {
    head.get(4..8) == Some(model::IDENTIFIER)
}
