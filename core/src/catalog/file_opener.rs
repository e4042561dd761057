//! Opens a file, from its first bytes to its [`FileCatalog`], in as few reads
//! as possible. Most formats take two round trips, whatever the size of the
//! model. All requests are absolute ranges, because browsers require a CORS
//! preflight for a range relative to the end of a file.

use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use super::fetched_ranges::FetchedRanges;
use super::format::AnyOpener;
use super::{FileCatalog, Kind};
use crate::container::safetensors;
use crate::engine::Engine;
use crate::frame::{self, Family};
use crate::limits::HEAD_LEN_BYTES;
use crate::{Error, Result, Rule};

fn by_magic(head: &[u8]) -> Option<Kind> {
    let is_of = |kind: &Kind| kind.magics().iter().any(|magic| head.starts_with(magic));
    Kind::FILES.iter().copied().find(is_of)
}

/// Returns whether `byte` can be the first byte of a safetensors header.
/// `None`, for a file that ends before its header, counts as possible.
pub(super) fn begins_header(byte: Option<&u8>) -> bool {
    byte.is_none_or(|byte| b"{ \t\r\n".contains(byte))
}

/// Recognises the format of a file of `file_len_bytes` by its first bytes.
///
/// # Errors The error describes the apparent format of the file.
pub fn recognise(head: &[u8], file_len_bytes: u64) -> Result<Kind> {
    match by_magic(head) {
        Some(kind) if kind.is_included() => return Ok(kind),
        Some(_) => return Err(Error::left_out()),
        None => {}
    }
    if let Some(family) = Family::recognise(head) {
        return Err(Error::unsupported(format!(
            "this is a single compressed frame ({}), not a checkpoint of tensors: decompress it",
            family.name()
        )));
    }
    if head.starts_with(&frame::delta::MAGIC) {
        return Err(Error::unsupported(
            "this is a delta between two buffers (Z4DL), not a checkpoint of tensors: decompress \
             it with its base",
        ));
    }
    #[cfg(feature = "other-formats")]
    if let Some(sentence) = super::other_format::describe(head) {
        return Err(Error::malformed(Rule::Recognised, sentence).at(0));
    }
    // A truncated container must not be mistaken for a malformed safetensors
    // file.
    if head.len() >= 8 && begins_header(head.get(8)) {
        safetensors::header_len_bytes(head, file_len_bytes)?;
        return Ok(Kind::Safetensors);
    }
    let detail = match head.trim_ascii_start() {
        [] => "the file is empty".into(),
        _ => format!(
            "this is not a ZSTN, Z4DM, zTensor, Gauss or safetensors file: its first bytes are {}",
            frame::printable(&head[..head.len().min(8)])
        ),
    };
    Err(Error::malformed(Rule::Recognised, detail).at(0))
}

/// A file that is being opened. It keeps the fetched bytes and computes the
/// ranges that are still missing.
#[derive(Debug, Clone)]
pub struct FileOpener {
    format: AnyOpener,
    fetched: FetchedRanges,
}

impl FileOpener {
    /// Returns the number of bytes that [`FileOpener::new`] requires of a file
    /// of `file_len_bytes`.
    #[must_use]
    pub fn head_len_bytes(file_len_bytes: u64) -> u64 {
        file_len_bytes.min(HEAD_LEN_BYTES)
    }

    /// Starts to open a file of `file_len_bytes` from its first
    /// [`head_len_bytes`](Self::head_len_bytes).
    pub fn new(file_len_bytes: u64, head: Vec<u8>) -> Result<Self> {
        if (head.len() as u64) < Self::head_len_bytes(file_len_bytes) {
            return Err(Error::invalid_input("the head of the file is too short"));
        }
        let kind = recognise(&head, file_len_bytes)?;
        let mut format = AnyOpener::new(kind).ok_or_else(Error::left_out)?;
        let fetched = FetchedRanges::new(file_len_bytes, head);
        format.advance(&fetched)?;
        Ok(Self { format, fetched })
    }

    /// Returns the byte ranges that are still missing; empty once
    /// [`FileOpener::finish`] can be called. The ranges do not overlap and may
    /// be read concurrently.
    ///
    /// The number of rounds is bounded: by the number of tensors in the header
    /// for a delta without a trailer, by the number of times that the index can
    /// double for a Gauss file, and by three for other files.
    pub fn needs(&self) -> Result<Vec<Range<u64>>> {
        self.format.needs(&self.fetched)
    }

    /// Adds the bytes of a range that [`FileOpener::needs`] has returned.
    pub fn supply(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        self.format.supply(&mut self.fetched, offset_bytes, bytes)?;
        self.format.advance(&self.fetched)
    }

    /// Returns the catalog of the file. Offsets in errors are relative to the
    /// start of the file.
    pub fn finish<E: Engine>(self, engine: &E) -> Result<FileCatalog> {
        if !self.needs()?.is_empty() {
            return Err(Error::invalid_input(
                "not all requested ranges were supplied",
            ));
        }
        self.format.finish(&self.fetched, engine)
    }
}
