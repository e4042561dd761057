//! Bytes that can be read once, in order.

use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Write};
use std::sync::Arc;

use super::{FileId, Local, Source, parallel, read_parts};
use crate::output::temporary;
use crate::{Error, Result};

/// The number of bytes that are read from a stream at a time.
const STREAM_PIECE_BYTES: usize = 1 << 20;

/// The length of one read from a source, and the number of such reads that are made at
/// the same time if the source is remote.
const READ_BYTES: u64 = 4 << 20;
const READS: usize = 4;

/// Bytes that are read once and in order, from a stream or from a whole source.
pub enum Feed {
    /// A stream, which is read once.
    Stream {
        /// The path or address, for messages.
        name: String,
        /// The rest of the stream.
        from: Box<dyn Read + Send>,
    },
    /// A source, which is read in order.
    Source {
        /// The source.
        source: Arc<dyn Source>,
        /// The offset of the next byte to be read.
        position: u64,
    },
}

impl Feed {
    /// Feeds a stream called `name`.
    pub fn stream(name: impl Into<String>, from: impl Read + Send + 'static) -> Self {
        Self::Stream {
            name: name.into(),
            from: Box::new(from),
        }
    }

    /// Feeds a source from its first byte.
    pub fn source(source: Arc<dyn Source>) -> Self {
        Self::rest_of(source, 0)
    }

    /// Feeds a source from the byte at `position`.
    pub(super) fn rest_of(source: Arc<dyn Source>, position: u64) -> Self {
        Self::Source { source, position }
    }

    /// Returns the path or address, for messages.
    pub fn name(&self) -> &str {
        match self {
            Self::Stream { name, .. } => name,
            Self::Source { source, .. } => source.name(),
        }
    }

    /// Returns the total length in bytes, if it is known.
    pub fn len_bytes(&self) -> Option<u64> {
        match self {
            Self::Stream { .. } => None,
            Self::Source { source, .. } => Some(source.len_bytes()),
        }
    }

    /// Returns the identities of the local files that the bytes come from.
    pub fn file_ids(&self) -> &[FileId] {
        match self {
            Self::Stream { .. } => &[],
            Self::Source { source, .. } => source.file_ids(),
        }
    }

    /// Returns the next bytes, in pieces; returns no pieces at the end.
    pub fn read(&mut self) -> Result<Vec<Vec<u8>>> {
        let mut pieces = match self {
            Self::Stream { name, from } => {
                let mut piece = Vec::new();
                let read = from.take(STREAM_PIECE_BYTES as u64).read_to_end(&mut piece);
                read.map_err(|error| Error::io(format!("read {name}"), error))?;
                vec![piece]
            }
            Self::Source { source, position } => {
                let (start, len_bytes) = (*position, source.len_bytes());
                let at = |read: usize| len_bytes.min(start + read as u64 * READ_BYTES);
                let at_once = if source.is_remote() { READS } else { 1 };
                let parts = parallel::run(READS, at_once, |read| {
                    let range = at(read)..at(read + 1);
                    // Separate calls, so that the ranges are not merged into one
                    // request.
                    read_parts(&[(&**source, range)])
                })?;
                let end = at(READS);
                *position = end;
                parts.into_iter().flatten().map(Cow::into_owned).collect()
            }
        };
        pieces.retain(|piece| !piece.is_empty());
        Ok(pieces)
    }

    /// Returns [`Error::Changed`] if the bytes may come from different versions of a
    /// file.
    pub fn check_unchanged(&self) -> Result<()> {
        match self {
            Self::Stream { .. } => Ok(()),
            Self::Source { source, .. } => source.check_unchanged(),
        }
    }

    /// Appends the remaining bytes to `file`, which already contains the first `so_far`
    /// bytes, and returns the complete copy. `progress` is called with the number of
    /// bytes copied and the total length, if it is known.
    pub fn copy(
        &mut self,
        mut file: File,
        mut so_far: u64,
        progress: &dyn Fn(u64, Option<u64>),
    ) -> Result<Local> {
        loop {
            let pieces = self.read()?;
            if pieces.is_empty() {
                break;
            }
            for piece in pieces {
                let written = file.write_all(&piece);
                written.map_err(|error| temporary::failed("write")(error))?;
                so_far += piece.len() as u64;
                progress(so_far, self.len_bytes());
            }
        }
        self.check_unchanged()?;
        let copy = Local::of_file(self.name().into(), &file)?;
        Ok(copy.with_file_ids(self.file_ids()))
    }
}
