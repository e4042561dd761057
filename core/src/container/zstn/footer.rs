//! The last 20 bytes of the file (docs/formats/z4ai-containers.md 2.2).

use alloc::format;
use core::ops::Range;

use super::MAGIC;
use crate::bytes::Cursor;
use crate::{Error, Result, Rule};

/// The length of the footer in bytes.
pub const FOOTER_BYTES: u64 = 20;

/// The footer, which contains the location of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footer {
    /// The range of the index in the file.
    pub index: Range<u64>,
}

impl Footer {
    /// Parses the footer `bytes` of a file of `file_len_bytes`. `frames_start`
    /// is the smallest possible offset of a frame.
    pub fn parse(bytes: &[u8], frames_start: u64, file_len_bytes: u64) -> Result<Self> {
        let footer_start = file_len_bytes - FOOTER_BYTES;
        let mut cursor = Cursor::new(bytes);
        let offset = cursor.u64("index offset")?;
        let len = cursor.u64("index length")?;
        if cursor.take(4, "trailer")? != MAGIC {
            return Err(Error::malformed(
                Rule::ZstnFooter,
                "the file does not end with the ZSTN trailer; it looks cut off or has bytes \
                 appended",
            )
            .at(file_len_bytes - 4));
        }
        match offset.checked_add(len) {
            Some(end) if offset >= frames_start && end <= footer_start => {
                Ok(Self { index: offset..end })
            }
            _ => Err(Error::malformed(
                Rule::ZstnIndexPlace,
                format!("the footer places the index at {offset} with {len} bytes"),
            )
            .at(footer_start)),
        }
    }

    /// Encodes the footer: offset and length of the index as little-endian `u64`, then the
    /// magic.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 20] {
        let mut out = [0; 20];
        out[..8].copy_from_slice(&self.index.start.to_le_bytes());
        out[8..16].copy_from_slice(&(self.index.end - self.index.start).to_le_bytes());
        out[16..].copy_from_slice(&MAGIC);
        out
    }
}
