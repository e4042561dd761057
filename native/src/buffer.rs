//! Single buffers in memory: frames, and deltas against another buffer.

use zstn_core::TensorRef;
use zstn_core::dtype::Dtype;
use zstn_core::frame::delta::{self, Delta};
use zstn_core::frame::select::{self, EncodeOptions};
use zstn_core::frame::{self, Families};
use zstn_core::limits::FRAME_DECODED_BYTES;

use crate::{Effort, Engine, Error, Result};

/// Compresses `data` into one frame that z4ai reads. `dtype` is that of the elements, or
/// `None` for bytes without a structure.
///
/// [`Effort::Max`] may give a frame of the family `ZARA`, which z4ai reads
/// everywhere but inside containers.
#[must_use]
pub fn compress(engine: &Engine, data: &[u8], dtype: Option<Dtype>, effort: Effort) -> Vec<u8> {
    let options = EncodeOptions::new(effort).families(Families::STANDALONE);
    select::encode(engine, TensorRef::flat(data, dtype), options)
}

/// Returns the buffer that `frame`, of any of z4ai's families, was made from.
///
/// Refuses a frame that says it decodes to over 64 GiB
/// ([`FRAME_DECODED_BYTES`]); for another limit there is
/// [`zstn_core::frame::decompress`].
pub fn decompress(engine: &Engine, frame: &[u8]) -> Result<Vec<u8>> {
    frame::decompress(engine, frame, FRAME_DECODED_BYTES).map_err(Error::place("the frame"))
}

/// Returns `current` as its difference from `reference`, which has to be as
/// long.
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

/// Returns the buffer that `delta` was made from, with the reference it was made
/// against; any other reference is refused.
pub fn decompress_delta(engine: &Engine, delta: &[u8], reference: &[u8]) -> Result<Vec<u8>> {
    Delta::parse(delta)
        .and_then(|delta| delta.decode(engine, reference))
        .map_err(Error::place("the delta"))
}
