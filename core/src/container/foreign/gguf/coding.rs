//! The coding of a tensor's stored bytes (docs/formats/gguf.md 3 and 4).

use alloc::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::blocks;
use super::element_type::ElementType;
use crate::container::foreign::byte_order::{ByteOrder, swapped};
use crate::{Error, Result, bytes};

/// How the stored bytes of a tensor become values. A stored *unit* is an element
/// or a block of elements; units are decoded independently of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ElementCoding {
    /// The stored bytes are the values.
    Plain,
    /// Elements of this many bytes, most significant byte first.
    Swapped(u8),
    /// Blocks of quantised elements, whose fields have this byte order. The
    /// values are `F32`.
    Blocks(ElementType, ByteOrder),
}

impl ElementCoding {
    /// Returns the coding of elements of this type in a file of this byte
    /// order.
    #[must_use]
    pub fn new(element: ElementType, order: ByteOrder) -> Self {
        match (element.is_block(), order, element.block_bytes()) {
            (true, ..) => Self::Blocks(element, order),
            (false, ByteOrder::Big, width @ 2..=8) => Self::Swapped(width as u8),
            (false, ..) => Self::Plain,
        }
    }

    /// Returns the number of bytes of a unit: decoded, and stored.
    #[must_use]
    pub fn unit_bytes(self) -> (u64, u64) {
        match self {
            Self::Plain => (1, 1),
            Self::Swapped(width) => (width.max(1).into(), width.max(1).into()),
            Self::Blocks(element, _) => (4 * element.block_elements(), element.block_bytes()),
        }
    }

    /// Decodes a whole number of units to little-endian values. Plain values
    /// are borrowed.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the last unit is
    /// incomplete.
    pub fn decode(self, stored: &[u8]) -> Result<Cow<'_, [u8]>> {
        let (decoded_bytes, stored_bytes) = self.unit_bytes();
        let len_bytes = stored.len() as u64;
        if !len_bytes.is_multiple_of(stored_bytes) {
            let detail = "these are not whole elements or blocks of the tensor";
            return Err(Error::invalid_input(detail));
        }
        Ok(match self {
            Self::Plain => Cow::Borrowed(stored),
            Self::Swapped(width) => swapped(stored, width.max(1).into())?.into(),
            Self::Blocks(element, order) => {
                let mut out = bytes::buffer(len_bytes / stored_bytes * decoded_bytes)?;
                blocks::decode(element, order, stored, &mut out);
                out.into()
            }
        })
    }
}
