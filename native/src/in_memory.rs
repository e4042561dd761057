//! Coding of single buffers in memory: frames, and deltas against another buffer.

use zstn_core::TensorRef;
use zstn_core::dtype::Dtype;
use zstn_core::frame::delta::{self, Delta};
use zstn_core::frame::select::{self, EncodeOptions};
use zstn_core::frame::{self, Families};
use zstn_core::limits::FRAME_DECODED_BYTES;

use crate::{Effort, Engine, Error, Result};

/// Compresses `data` into one frame that z4ai can read. `dtype` is the dtype of the
/// elements, or `None` for bytes without a structure.
///
/// [`Effort::Max`] may produce a frame of the family `ZARA`, which z4ai can read as a
/// single frame but not inside a container.
#[must_use]
pub fn compress(engine: &Engine, data: &[u8], dtype: Option<Dtype>, effort: Effort) -> Vec<u8> {
    let options = EncodeOptions::new(effort).families(Families::STANDALONE);
    select::encode(engine, TensorRef::flat(data, dtype), options)
}

/// Decodes `frame`, a frame of any of z4ai's families, into the original buffer.
///
/// Refuses a frame whose header states a decoded length above 64 GiB
/// ([`FRAME_DECODED_BYTES`]); [`zstn_core::frame::decompress`] accepts another limit.
pub fn decompress(engine: &Engine, frame: &[u8]) -> Result<Vec<u8>> {
    frame::decompress(engine, frame, FRAME_DECODED_BYTES).map_err(Error::place("the frame"))
}

/// Encodes `current` as a delta from `reference`, which must have the same length.
pub fn compress_delta(
    engine: &Engine,
    current: &[u8],
    reference: &[u8],
    dtype: Option<Dtype>,
    effort: Effort,
) -> Result<Vec<u8>> {
    let current = TensorRef::flat(current, dtype);
    delta::encode(engine, current, reference, effort.into()).map_err(Error::place("the buffer"))
}

/// Restores the buffer that `delta` was made from. `reference` must be the buffer it
/// was made against; any other one is refused.
pub fn decompress_delta(engine: &Engine, delta: &[u8], reference: &[u8]) -> Result<Vec<u8>> {
    Delta::parse(delta)
        .and_then(|delta| delta.decode(engine, reference))
        .map_err(Error::place("the delta"))
}
