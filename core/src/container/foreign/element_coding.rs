//! The coding of a tensor's stored bytes in formats that store elements
//! without compression.

use alloc::borrow::Cow;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::byte_order::swapped;
#[cfg(feature = "gguf")]
use super::gguf::{self, ByteOrder, ElementType};
#[cfg(any(feature = "onnx", feature = "tflite"))]
use super::narrow::NarrowType;
use crate::bytes::index;
use crate::{Error, Result};

/// How the stored bytes of a tensor become values. A stored *unit* is an element
/// or a block of elements; units are decoded independently of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ElementCoding {
    /// The stored bytes are the values.
    Plain,
    /// Elements of this many bytes, most significant byte first.
    Swapped(u64),
    /// Blocks of quantised elements of GGUF, whose fields have this byte order.
    /// The values are `F32` (docs/formats/gguf.md 4).
    #[cfg(feature = "gguf")]
    Blocks(ElementType, ByteOrder),
    /// Elements that are smaller than a byte. A unit is a stored byte, so the
    /// values of the last one may include padding (docs/formats/onnx.md 3).
    #[cfg(any(feature = "onnx", feature = "tflite"))]
    Narrow(NarrowType),
}

/// The units that contain some bytes of a decoded tensor.
pub(crate) struct Units {
    /// The range of the stored tensor.
    pub stored: Range<u64>,
    /// The number of decoded bytes before the wanted ones.
    pub skipped_bytes: u64,
}

impl ElementCoding {
    /// Returns the number of bytes of a unit: decoded, and stored.
    #[must_use]
    pub fn unit_bytes(self) -> (u64, u64) {
        match self {
            Self::Plain => (1, 1),
            Self::Swapped(width) => (width.max(1), width.max(1)),
            #[cfg(feature = "gguf")]
            Self::Blocks(element, _) => (4 * element.block_elements(), element.block_bytes()),
            #[cfg(any(feature = "onnx", feature = "tflite"))]
            Self::Narrow(narrow) => (narrow.values_per_byte(), 1),
        }
    }

    /// Returns the units that contain the bytes `span` of the decoded tensor.
    #[must_use]
    pub(crate) fn units(self, span: &Range<u64>) -> Units {
        let (decoded_bytes, stored_bytes) = self.unit_bytes();
        let first = span.start / decoded_bytes;
        Units {
            stored: first * stored_bytes..span.end.div_ceil(decoded_bytes) * stored_bytes,
            skipped_bytes: span.start - first * decoded_bytes,
        }
    }

    /// Decodes a whole number of units to little-endian values. Plain values
    /// are borrowed.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the last unit is
    /// incomplete.
    pub fn decode(self, stored: &[u8]) -> Result<Cow<'_, [u8]>> {
        let (_, stored_bytes) = self.unit_bytes();
        let len_bytes = stored.len() as u64;
        if !len_bytes.is_multiple_of(stored_bytes) {
            let detail = "these are not whole elements or blocks of the tensor";
            return Err(Error::invalid_input(detail));
        }
        Ok(match self {
            Self::Plain => Cow::Borrowed(stored),
            Self::Swapped(width) => swapped(stored, index(width.max(1)))?.into(),
            #[cfg(feature = "gguf")]
            Self::Blocks(element, order) => {
                let mut out =
                    crate::bytes::buffer(len_bytes / stored_bytes * 4 * element.block_elements())?;
                gguf::decode_blocks(element, order, stored, &mut out);
                out.into()
            }
            #[cfg(any(feature = "onnx", feature = "tflite"))]
            Self::Narrow(narrow) => narrow.widen(stored)?.into(),
        })
    }
}
