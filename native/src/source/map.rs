//! Memory-mapped files: the shell around the operating system's `mmap`.
//!
//! The one thing a map cannot promise is that nobody changes the file
//! meanwhile. Whoever made a result from a map asks
//! [`Map::check_unchanged`] before the result gets its name. A file that is
//! cut short raises `SIGBUS` where it is touched, unless the program has
//! called [`survive_truncation`](super::survive_truncation).
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::fs::File;
use std::ops::{Deref, Range};
use std::path::Path;

use memmap2::{Mmap, MmapOptions};

use super::fault::Guarded;
use super::version::{FileId, FileVersion};
use super::{Source, check_inside};
use crate::{Error, Result};

/// A file mapped for reading, or bytes in memory under a name.
#[derive(Debug)]
pub struct Map {
    name: String,
    bytes: Bytes,
    /// `None` for bytes that no other process can change.
    version: Option<FileVersion>,
    /// The mapped file, or those that the bytes were restored from.
    file_ids: Vec<FileId>,
}

#[derive(Debug)]
enum Bytes {
    Mapped {
        /// Dropped before the map.
        _guarded: Guarded,
        map: Mmap,
    },
    Owned(Vec<u8>),
}

impl Map {
    /// Maps the file at `path`.
    pub fn open(path: &Path) -> Result<Self> {
        let version = FileVersion::open(path)?;
        let mut map = Self::new(path.display().to_string(), version.file())?;
        map.file_ids.push(version.id().clone());
        map.version = Some(version);
        Ok(map)
    }

    /// Takes bytes in memory. `name` is for messages.
    pub(crate) fn of_bytes(name: String, bytes: Vec<u8>) -> Self {
        Self {
            name,
            bytes: Bytes::Owned(bytes),
            version: None,
            file_ids: Vec::new(),
        }
    }

    /// Notes that the bytes were made from those of `maps`, so that an output
    /// does not replace one of their files.
    pub(crate) fn restored_from(self, maps: &[&Self]) -> Self {
        maps.iter()
            .fold(self, |map, from| map.with_file_ids(&from.file_ids))
    }

    /// Notes that the bytes were made from these files.
    pub(crate) fn with_file_ids(mut self, ids: &[FileId]) -> Self {
        self.file_ids.extend_from_slice(ids);
        self
    }

    /// Maps an open file under the name it is to have in messages.
    pub(crate) fn new(name: String, file: &File) -> Result<Self> {
        Self::with_options(name, file, &MmapOptions::new())
    }

    /// Maps a part of an open file.
    pub(crate) fn of_range(name: String, file: &File, range: Range<u64>) -> Result<Self> {
        let mut options = MmapOptions::new();
        options.offset(range.start);
        options.len(zstn_core::bytes::index(range.end - range.start));
        Self::with_options(name, file, &options)
    }

    fn with_options(name: String, file: &File, options: &MmapOptions) -> Result<Self> {
        // SAFETY: the map is read-only; see the module's words on changes from
        // outside. It is shared with the file: `Arriving` writes to the file and
        // reads what it has written here.
        let map = unsafe { options.map(file) }
            .map_err(|error| Error::io(format!("map {name} into memory"), error))?;
        Ok(Self {
            name,
            bytes: Bytes::Mapped {
                _guarded: Guarded::new(&map),
                map,
            },
            version: None,
            file_ids: Vec::new(),
        })
    }

    /// Advises the system that these bytes are not needed for now. They stay
    /// readable; the memory they took no longer counts as this process's.
    ///
    /// The rest of their pages is released as well: reading a byte maps its
    /// neighbours, which no other call would release.
    pub fn release(&self, range: Range<usize>) {
        /// The largest page that a system maps at once.
        #[cfg(unix)]
        const PAGE_BYTES: usize = 2 << 20;
        #[cfg(unix)]
        if let Bytes::Mapped { map, .. } = &self.bytes
            && range.end <= map.len()
            && !range.is_empty()
        {
            let start = range.start / PAGE_BYTES * PAGE_BYTES;
            let end = range.end.saturating_add(PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
            let range = start..end.min(map.len());
            // SAFETY: dropping clean pages of a read-only file mapping loses
            // nothing, the next access reads them again. Failure is harmless.
            let _ = unsafe {
                map.unchecked_advise_range(
                    memmap2::UncheckedAdvice::DontNeed,
                    range.start,
                    range.len(),
                )
            };
        }
        #[cfg(not(unix))]
        let _ = range;
    }

    /// The bytes of `range` a few MiB at a time, so that reading all of them
    /// does not keep them in memory: a piece is released when the next is
    /// asked for, and the last at the end.
    pub(crate) fn pieces(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]> {
        const PIECE_BYTES: usize = 16 << 20;
        let mut behind = range.start..range.start;
        std::iter::from_fn(move || {
            self.release(behind.clone());
            let end = range.end.min(behind.end.saturating_add(PIECE_BYTES));
            behind = behind.end..end;
            (!behind.is_empty()).then(|| &self[behind.clone()])
        })
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped { map, .. } => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

impl Source for Map {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_in_memory(&self) -> bool {
        true
    }

    fn file_ids(&self) -> &[FileId] {
        &self.file_ids
    }

    fn check_unchanged(&self) -> Result<()> {
        match &self.version {
            Some(version) => version.check_unchanged(&self.name),
            None => Ok(()),
        }
    }

    fn len_bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        check_inside(self, &range)?;
        Ok(Cow::Borrowed(zstn_core::bytes::part(self, range)))
    }
}
