//! The order of the bytes of an element.

use alloc::vec::Vec;

#[cfg(any(feature = "gguf", feature = "ztensor"))]
use serde::{Deserialize, Serialize};

use crate::{Result, bytes};

/// The order of the bytes of an element.
#[cfg(any(feature = "gguf", feature = "ztensor"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

/// Reverses the bytes of each element of `width` bytes. Bytes after the last
/// whole element become zero; callers check the length first.
pub(super) fn swapped(elements: &[u8], width: usize) -> Result<Vec<u8>> {
    let mut out = bytes::buffer(elements.len() as u64)?;
    for (from, to) in elements
        .chunks_exact(width)
        .zip(out.chunks_exact_mut(width))
    {
        to.copy_from_slice(from);
        to.reverse();
    }
    Ok(out)
}
