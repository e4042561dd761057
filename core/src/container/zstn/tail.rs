//! Index and integrity section, which follow the frames of a file.

use core::ops::Range;

use super::integrity::{Integrity, Section};
use super::{Index, Prefix};
use crate::Result;
use crate::bytes::part;

/// A checked index, and what the file says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// The index.
    pub index: Index,
    /// Missing in files of z4ai.
    pub integrity: Option<Integrity>,
}

impl Tail {
    /// Parses the bytes between `index.start` and the footer; the index itself
    /// is at `index`. `prefix_bytes` is the file up to its frames. Offsets in
    /// errors are relative to the start of the file.
    pub fn parse(
        prefix: &Prefix,
        prefix_bytes: &[u8],
        index: &Range<u64>,
        bytes: &[u8],
    ) -> Result<Self> {
        let index_len = index.end - index.start;
        let after = part(bytes, index_len..bytes.len() as u64);
        let section = Section::parse(after).map_err(|error| error.within(index.end))?;
        let index_bytes = part(bytes, 0..index_len);
        if let Some(section) = &section {
            section.check_head(prefix_bytes, index_bytes)?;
        }
        let index_start = index.start;
        let frames = prefix.end()..index_start;
        let index = Index::parse(index_bytes, frames, prefix.data_len_bytes)?;
        let integrity = section.map(|section| section.attach(prefix, &index, index_start));
        Ok(Self {
            integrity: integrity.transpose()?,
            index,
        })
    }

    /// Parses like [`Tail::parse`], from the whole file.
    pub fn of_file(prefix: &Prefix, file: &[u8]) -> Result<Self> {
        let len = file.len() as u64;
        let footer_start = len - super::FOOTER_BYTES;
        let footer = part(file, footer_start..len);
        let index = super::Footer::parse(footer, prefix.end(), len)?.index;
        let bytes = part(file, index.start..footer_start);
        Self::parse(prefix, part(file, 0..prefix.end()), &index, bytes)
    }
}
