//! Index and integrity section, which follow the frames of a file.

use alloc::borrow::Cow;
use core::ops::Range;

use super::index::unexplained;
use super::integrity::{Integrity, Section};
use super::{Index, Prefix};
use crate::bytes::part;
use crate::{Error, Result, Rule};

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
    ///
    /// # Errors
    /// Every byte of the file must belong to the prefix, a frame, the statistics,
    /// a block table, the index, the integrity section or the footer. A section that
    /// the prefix announces must be there.
    pub fn parse(
        prefix: &Prefix,
        prefix_bytes: &[u8],
        index: &Range<u64>,
        bytes: &[u8],
    ) -> Result<Self> {
        let index_len = index.end - index.start;
        let after = part(bytes, index_len..bytes.len() as u64);
        let index_bytes = part(bytes, 0..index_len);
        let index_start = index.start;
        let parse_index = || {
            Index::parse(
                index_bytes,
                prefix.end()..index_start,
                prefix.data_len_bytes,
            )
        };
        let section = match Section::parse(after) {
            Ok(section) => section,
            // An index that is cut short leaves bytes behind that are no section.
            Err(error) => {
                return Err(parse_index().err().unwrap_or(error.within(index.end)));
            }
        };
        match &section {
            Some(section) => section.check_head(prefix_bytes, index_bytes)?,
            None if prefix.has_integrity => {
                return Err(Error::malformed(
                    Rule::ZstnIntegrity,
                    "the file was packed with an integrity section, and has none: it is damaged, \
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

    /// Parses like [`Tail::parse`], from the whole file.
    pub fn of_file(prefix: &Prefix, file: &[u8]) -> Result<Self> {
        let mut fetch = |range| Ok::<_, Error>(Cow::Borrowed(part(file, range)));
        let prefix_bytes = part(file, 0..prefix.end());
        Self::read(prefix, prefix_bytes, file.len() as u64, &mut fetch)
    }

    /// Parses like [`Tail::parse`], from a file of `len_bytes` of which `fetch`
    /// returns ranges.
    ///
    /// # Errors
    /// The errors of `fetch`, and a file that breaks a rule.
    pub fn read<'f, E: From<Error>>(
        prefix: &Prefix,
        prefix_bytes: &[u8],
        len_bytes: u64,
        fetch: &mut dyn FnMut(Range<u64>) -> Result<Cow<'f, [u8]>, E>,
    ) -> Result<Self, E> {
        let footer_start = len_bytes - super::FOOTER_BYTES;
        let footer = fetch(footer_start..len_bytes)?;
        let index = super::Footer::parse(&footer, prefix.end(), len_bytes)?.index;
        let bytes = fetch(index.start..footer_start)?;
        Ok(Self::parse(prefix, prefix_bytes, &index, &bytes)?)
    }
}
