//! The stored parts of tensors (docs/formats/ztensor.md 5, 7 and 8.2).

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::checksum::{Checksum, Covers};
use super::element::Element;
use super::seekable;
use crate::bytes;
use crate::engine::Engine;
use crate::entropy::zstd;
use crate::{Error, Result, Rule};

/// The order of the bytes of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first, which occurs only in version 0.1.
    Big,
}

/// The encoding of a part's elements in its stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Coding {
    /// Uncompressed, in this byte order.
    Raw(ByteOrder),
    /// One zstd frame: versions 0.1 and 1.
    Zstd,
    /// Several zstd frames, followed by a table of them: version 2.
    SeekableZstd,
}

/// A part of a tensor, which is one blob of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The role of the part in the tensor: `data`, `values`, `indices`, …
    pub role: String,
    /// The type of the elements.
    pub element: Element,
    /// The range of the part in the file. Meaningless if the part is in a
    /// shard.
    pub stored: Range<u64>,
    /// The encoding of the stored bytes.
    pub coding: Coding,
    /// The length of the decoded part in bytes, if the file states it.
    pub decoded_len_bytes: Option<u64>,
    /// The expected checksum, if the file has one.
    pub checksum: Option<Checksum>,
    /// The name of the shard, a separate file, that contains the part, if one
    /// does (version 2).
    pub shard: Option<String>,
}

impl Part {
    /// Returns the number of bytes stored for the part.
    #[must_use]
    pub fn stored_len_bytes(&self) -> u64 {
        self.stored.end - self.stored.start
    }

    /// Returns the decoded length, if it follows from the `stored` bytes
    /// without decoding them.
    pub fn expected_len_bytes(&self, stored: &[u8]) -> Result<Option<u64>> {
        match (self.decoded_len_bytes, self.coding) {
            (Some(len), _) => Ok(Some(len)),
            (None, Coding::Raw(_)) => Ok(Some(stored.len() as u64)),
            (None, Coding::Zstd) => zstd::content_bytes(stored),
            (None, Coding::SeekableZstd) => Ok(None),
        }
    }

    /// Decodes the `stored` bytes to exactly `len_bytes` in little-endian
    /// order, and compares them with the checksum. Borrows the bytes if they
    /// need no conversion.
    pub fn decode<'a, E: Engine>(
        &self,
        engine: &E,
        stored: &'a [u8],
        len_bytes: u64,
    ) -> Result<Cow<'a, [u8]>> {
        if let Some(shard) = &self.shard {
            return Err(Error::unsupported(format!(
                "`{}` is stored in another file, the shard `{}`, which this version does not read",
                self.role,
                shard.escape_default()
            )));
        }
        if stored.len() as u64 != self.stored_len_bytes() {
            return Err(Error::invalid_input(
                "these are not the part's stored bytes",
            ));
        }
        if let Some(checksum) = &self.checksum {
            checksum.check(Covers::Stored, stored)?;
        }
        if let Some(promised) = self.decoded_len_bytes.filter(|&len| len != len_bytes) {
            return Err(wrong_length(promised, len_bytes));
        }
        let decoded = match self.coding {
            Coding::Raw(order) => {
                if stored.len() as u64 != len_bytes {
                    return Err(wrong_length(stored.len() as u64, len_bytes));
                }
                match (order, self.element.width_bytes()) {
                    (ByteOrder::Big, Some(width)) if width > 1 => swapped(stored, width)?.into(),
                    _ => Cow::Borrowed(stored),
                }
            }
            Coding::Zstd => {
                zstd::check(stored, len_bytes)?;
                let mut out = bytes::buffer(len_bytes)?;
                zstd::decode(engine, stored, &mut out)?;
                out.into()
            }
            Coding::SeekableZstd => seekable::decode(engine, stored, len_bytes)?.into(),
        };
        if let Some(checksum) = &self.checksum {
            checksum.check(Covers::Decoded, &decoded)?;
        }
        Ok(decoded)
    }
}

fn wrong_length(actual: u64, expected: u64) -> Error {
    Error::malformed(
        Rule::ZTensorLength,
        format!("{actual} bytes are stored where shape and dtype ask for {expected}"),
    )
}

/// Reverses the bytes of each element of `width` bytes.
pub(super) fn swapped(elements: &[u8], width: usize) -> Result<Vec<u8>> {
    if !elements.len().is_multiple_of(width) {
        return Err(Error::malformed(
            Rule::ZTensorLength,
            format!(
                "{} bytes are not a whole number of elements",
                elements.len()
            ),
        ));
    }
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
