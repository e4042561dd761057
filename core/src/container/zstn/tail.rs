//! The end of the file: the index and the integrity section, which follow the
//! frames, and the footer in the last 20 bytes (docs/formats/z4ai-containers.md
//! 2.2).

use alloc::borrow::Cow;
use alloc::format;
use core::ops::Range;

use super::index::unexplained;
use super::integrity::{Integrity, Section};
use super::{ContainerIndex, ContainerPrefix, MAGIC};
use crate::bytes::{Cursor, part};
use crate::{Error, Result, Rule};

/// A checked index and, if the file has one, its integrity section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerTail {
    /// The index.
    pub index: ContainerIndex,
    /// The integrity section. Files written by z4ai have none.
    pub integrity: Option<Integrity>,
}

impl ContainerTail {
    /// Parses `bytes`, the bytes between `index.start` and the footer. `index`
    /// is the range of the index, and `prefix_bytes` contains the file before
    /// its frames. Offsets in errors are relative to the start of the file.
    ///
    /// # Errors
    /// A file with bytes that belong to no prefix, frame, statistics, block
    /// table, index, integrity section or footer, and a file that lacks the
    /// section that its prefix announces.
    pub fn parse(
        prefix: &ContainerPrefix,
        prefix_bytes: &[u8],
        index: &Range<u64>,
        bytes: &[u8],
    ) -> Result<Self> {
        let index_len = index.end - index.start;
        let after = part(bytes, index_len..bytes.len() as u64);
        let index_bytes = part(bytes, 0..index_len);
        let index_start = index.start;
        let parse_index = || {
            ContainerIndex::parse(
                index_bytes,
                prefix.end()..index_start,
                prefix.data_len_bytes,
            )
        };
        let section = match Section::parse(after) {
            Ok(section) => section,
            // If the index itself is cut short, its error explains the bytes
            // after it.
            Err(error) => {
                return Err(parse_index().err().unwrap_or(error.within(index.end)));
            }
        };
        match &section {
            Some(section) => section.check_head(prefix_bytes, index_bytes)?,
            None if prefix.has_integrity => {
                return Err(Error::malformed(
                    Rule::ZstnIntegrity,
                    "the file was packed with an integrity section, but has none: it is damaged, \
                     get it again",
                )
                .at(index.end));
            }
            None => {}
        }
        let index = parse_index()?;
        let after_frames = index.check_frames(prefix.end())?..index_start;
        let integrity = match section {
            Some(section) => Some(section.attach(prefix, &index, after_frames)?),
            None if after_frames.is_empty() => None,
            None => return Err(unexplained(after_frames)),
        };
        Ok(Self { index, integrity })
    }

    /// Parses the index and the section like [`ContainerTail::parse`], from the whole
    /// file.
    pub fn of_file(prefix: &ContainerPrefix, file: &[u8]) -> Result<Self> {
        let mut fetch = |range| Ok::<_, Error>(Cow::Borrowed(part(file, range)));
        let prefix_bytes = part(file, 0..prefix.end());
        Self::read(prefix, prefix_bytes, file.len() as u64, &mut fetch)
    }

    /// Parses the index and the section like [`ContainerTail::parse`], from a file of
    /// `len_bytes`. `fetch` returns the bytes of a range.
    ///
    /// # Errors
    /// The errors of `fetch`, and the rule that the file breaks.
    pub fn read<'f, E: From<Error>>(
        prefix: &ContainerPrefix,
        prefix_bytes: &[u8],
        len_bytes: u64,
        fetch: &mut dyn FnMut(Range<u64>) -> Result<Cow<'f, [u8]>, E>,
    ) -> Result<Self, E> {
        let footer_start = len_bytes - FOOTER_BYTES;
        let footer = fetch(footer_start..len_bytes)?;
        let index = ContainerFooter::parse(&footer, prefix.end(), len_bytes)?.index;
        let bytes = fetch(index.start..footer_start)?;
        Ok(Self::parse(prefix, prefix_bytes, &index, &bytes)?)
    }
}

/// The length of the footer in bytes.
pub const FOOTER_BYTES: u64 = 20;

/// The footer, which contains the location of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerFooter {
    /// The range of the index in the file.
    pub index: Range<u64>,
}

impl ContainerFooter {
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
