//! Self-describing frames: each holds one compressed buffer
//! (docs/formats/z4ai-frames.md 2).
//!
//! The bytes of a frame fully determine how it is decoded. [`select`] decides
//! how a buffer is encoded; no decoder depends on it.

use alloc::format;
use alloc::vec::Vec;

use crate::engine::Engine;
use crate::{Error, Result, Rule};

#[doc(hidden)]
pub mod chunked;
pub mod delta;
pub mod difference;
mod edition;
mod family;
mod info;
#[doc(hidden)]
pub mod lattice;
mod numpy;
#[doc(hidden)]
pub mod palette;
#[doc(hidden)]
pub mod plane;
pub mod select;
#[doc(hidden)]
pub mod sparse;
mod stored;
mod stream;
#[doc(hidden)]
pub mod turbo;
#[doc(hidden)]
pub mod z4ai;
#[doc(hidden)]
pub mod zara;

pub use edition::Edition;
#[doc(hidden)]
pub use family::FrameFamily;
pub(crate) use family::printable;
pub use family::{Families, Family, Frame};
pub use info::FrameInfo;
pub(crate) use info::decoded_len;
pub use numpy::{NumPy, describe};
pub use stored::Stored;

/// Decodes `bytes`, which must be exactly one frame.
///
/// # Errors
/// [`ErrorKind::Limit`](crate::ErrorKind) if the frame decodes to more than
/// `limit_bytes` bytes, and errors for a malformed frame.
pub fn decompress<E: Engine>(engine: &E, bytes: &[u8], limit_bytes: u64) -> Result<Vec<u8>> {
    let frame = Frame::parse(bytes)?;
    if frame.stored_len() != bytes.len() {
        return Err(Error::malformed(
            Rule::FrameTrailing,
            format!(
                "{} bytes follow the frame",
                bytes.len() - frame.stored_len()
            ),
        )
        .at(frame.stored_len() as u64));
    }
    let len_bytes = frame.decoded_len_bytes();
    if len_bytes > limit_bytes {
        return Err(Error::limit(format!(
            "the frame decodes to {len_bytes} bytes, over the limit of {limit_bytes}"
        )));
    }
    frame.decompress(engine)
}
