//! A whole input that is read by range: a file, bytes in memory, or a remote file.
//!
//! Files are read into buffers and never memory-mapped. An unreadable page is therefore
//! an error of the read that needs it, and file systems that cannot map files also
//! work.

use std::borrow::Cow;
use std::fs::File;
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use zstn_core::catalog::{FileKind, recognise};
use zstn_core::container::safetensors::ShardIndex;
use zstn_core::limits::HEAD_LEN_BYTES;

use super::arriving_safetensors::Stored;
use super::file::read_exact_at;
use super::joined::Joined;
use super::mixed::Mixed;
use super::read_ahead::ReadAhead;
use super::version::{FileId, FileVersion};
use super::{Feed, Source, check_inside};
use crate::buffers::{Buffer, Buffers};
use crate::output::temporary;
use crate::{Engine, Error, Result};

/// A whole input: a file on this machine, bytes in memory with a name, or a remote file
/// that is read ahead of its use.
#[derive(Debug)]
pub struct Local {
    name: String,
    bytes: Bytes,
    /// The identity of the file at a path, or of the files that the bytes were restored
    /// from.
    file_ids: Vec<FileId>,
    /// The format that a packed file states for the file that was restored from it.
    stated_format: Option<String>,
    /// The last result of [`Local::digest_once`].
    digest: Mutex<Option<(Range<u64>, [u8; 8])>>,
}

#[derive(Debug)]
enum Bytes {
    /// A file at a path, which other processes can change.
    File(FileVersion),
    /// A range of a file that only this process uses.
    Private {
        file: File,
        range: Range<u64>,
    },
    Owned(Vec<u8>),
    /// A file that arrives, of which a few ranges can be read.
    Stored(Arc<Stored>),
    Remote(ReadAhead),
    Joined(Joined),
    Mixed(Mixed),
}

/// The number of bytes that [`Local::feed`] reads at a time. Statistics require a
/// multiple of [`PIECE_STEP_BYTES`](zstn_core::statistics::PIECE_STEP_BYTES).
const PIECE_BYTES: u64 = 1 << 20;

/// The minimum length in bytes of a remote container that is not copied. A shorter one
/// arrives with the response that opens it, and reading ranges would take more requests.
pub(super) const MIN_ARRIVING_BYTES: u64 = 4 << 20;

impl Local {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// A path that does not exist, cannot be read, or is a folder, a pipe, a socket or
    /// a device.
    pub fn open(path: &Path) -> Result<Self> {
        let version = FileVersion::open(path)?;
        let ids = [version.id().clone()];
        Ok(Self::new(path.display().to_string(), Bytes::File(version)).with_file_ids(&ids))
    }

    fn new(name: String, bytes: Bytes) -> Self {
        Self {
            name,
            bytes,
            file_ids: Vec::new(),
            stated_format: None,
            digest: Mutex::default(),
        }
    }

    /// Uses the files of a model as the one file that is the base of deltas. Messages call
    /// it `name`. `shards` is the index of the model.
    ///
    /// # Errors
    /// A file that is not safetensors or is refused; I/O errors.
    pub(crate) fn joined(
        engine: &Engine,
        name: String,
        files: Vec<Arc<Self>>,
        shards: Option<&ShardIndex>,
    ) -> Result<Self> {
        let joined = Joined::new(engine, &name, files, shards)?;
        let ids = joined.files().iter().flat_map(|file| &file.file_ids);
        let ids: Vec<FileId> = ids.cloned().collect();
        Ok(Self::new(name, Bytes::Joined(joined)).with_file_ids(&ids))
    }

    /// Sets the format that the packed file states which was restored to this file.
    pub(crate) fn with_stated_format(self, format: Option<&str>) -> Self {
        Self {
            stated_format: format.map(str::to_owned),
            ..self
        }
    }

    /// Returns the format that a packed file states, if this file was restored from one whose
    /// original is not safetensors.
    pub(crate) fn stated_format(&self) -> Option<&str> {
        self.stated_format.as_deref()
    }

    /// Returns the data of files that are used as one ([`Local::joined`]), without the
    /// header; `None` for another input.
    pub(crate) fn joined_data(&self) -> Option<Self> {
        let Bytes::Joined(joined) = &self.bytes else {
            return None;
        };
        let data = Self::new(self.name.clone(), Bytes::Joined(joined.data()));
        Some(data.with_file_ids(&self.file_ids))
    }

    /// Uses a base that is computed from other checkpoints.
    pub(crate) fn mixed(mixed: Mixed) -> Self {
        let (name, ids) = (mixed.name().to_owned(), mixed.file_ids().to_vec());
        Self::new(name, Bytes::Mixed(mixed)).with_file_ids(&ids)
    }

    /// Uses bytes in memory. Messages call them `name`.
    pub(crate) fn of_bytes(name: String, bytes: Vec<u8>) -> Self {
        Self::new(name, Bytes::Owned(bytes))
    }

    /// Uses a file that arrives. Messages call it `name`.
    pub(super) fn of_stored(name: String, stored: Arc<Stored>) -> Self {
        Self::new(name, Bytes::Stored(stored))
    }

    /// Uses a remote container while it arrives ([`Local::read_ahead`]). A file of another
    /// type and a small one are copied to the disk; `progress` is called with the number
    /// of bytes copied and the length.
    ///
    /// # Errors
    /// The errors of the source; too little space for a copy.
    pub(super) fn of_packed(
        source: Arc<dyn Source>,
        progress: &dyn Fn(u64, Option<u64>),
    ) -> Result<Self> {
        let len_bytes = source.len_bytes();
        let head = source
            .read(0..len_bytes.min(MIN_ARRIVING_BYTES))?
            .into_owned();
        let first = &head[..head.len().min(zstn_core::bytes::index(HEAD_LEN_BYTES))];
        if len_bytes >= MIN_ARRIVING_BYTES
            && let Ok(FileKind::Zstn) = recognise(first, len_bytes)
        {
            let (name, ids) = (source.name().into(), source.file_ids().to_vec());
            let remote = Bytes::Remote(ReadAhead::new(source, head));
            return Ok(Self::new(name, remote).with_file_ids(&ids));
        }
        let mut file = temporary::create()?;
        let written = file.write_all(&head);
        written.map_err(|error| temporary::failed("write")(error))?;
        let so_far_bytes = head.len() as u64;
        progress(so_far_bytes, Some(len_bytes));
        Feed::rest_of(source, so_far_bytes).copy(file, so_far_bytes, progress)
    }

    /// Uses a whole open file that only this process uses. Messages call it `name`.
    ///
    /// # Errors
    /// I/O errors.
    #[doc(hidden)]
    pub fn of_file(name: String, file: &File) -> Result<Self> {
        match file.metadata() {
            Ok(metadata) => Self::of_range(name, file, 0..metadata.len()),
            Err(error) => Err(Error::io(format!("look at {name}"), error)),
        }
    }

    /// Uses a range of an open file that only this process uses. The bytes may be
    /// written later, but must be written before they are read.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn of_range(name: String, file: &File, range: Range<u64>) -> Result<Self> {
        let file = file.try_clone();
        let file = file.map_err(|error| Error::io(format!("open {name} again"), error))?;
        Ok(Self::new(name, Bytes::Private { file, range }))
    }

    /// Records that the bytes were made from `inputs`, so that no output replaces one
    /// of their files.
    pub(crate) fn restored_from(self, inputs: &[&Self]) -> Self {
        inputs
            .iter()
            .fold(self, |local, from| local.with_file_ids(&from.file_ids))
    }

    /// Records that the bytes were made from these files.
    pub(crate) fn with_file_ids(mut self, ids: &[FileId]) -> Self {
        self.file_ids.extend_from_slice(ids);
        self
    }

    /// Returns the first `len_bytes` bytes, or all bytes if there are fewer. Of a file
    /// that arrives, these may be fewer, but they contain the header.
    ///
    /// # Errors
    /// I/O errors.
    #[doc(hidden)]
    pub fn head(&self, len_bytes: u64) -> Result<Cow<'_, [u8]>> {
        let most_bytes = match &self.bytes {
            Bytes::Stored(stored) => stored.head_len_bytes(),
            _ => self.len_bytes(),
        };
        self.read(0..len_bytes.min(most_bytes))
    }

    /// Returns all bytes.
    ///
    /// # Errors
    /// I/O errors; a file that does not fit into memory.
    pub fn read_all(&self) -> Result<Cow<'_, [u8]>> {
        self.read(0..self.len_bytes())
    }

    /// Returns the bytes of `range`. If they have to be read, their memory comes from
    /// `buffers`.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn read_with(&self, buffers: &Buffers, range: Range<u64>) -> Result<Buffer<'_>> {
        if self.is_in_memory() {
            return self.read(range).map(Buffer::from);
        }
        check_inside(self, &range)?;
        let mut bytes = buffers.take(range.end - range.start)?;
        self.read_into(range.start, &mut bytes)?;
        Ok(bytes)
    }

    /// Passes the bytes of `range` to `sink`, in order and in small pieces.
    ///
    /// # Errors
    /// I/O errors.
    #[doc(hidden)]
    pub fn feed(&self, range: Range<u64>, sink: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.try_feed(range, &mut |piece| {
            sink(piece);
            Ok(())
        })
    }

    /// Passes bytes like [`Local::feed`]; an error of `sink` ends the work.
    ///
    /// # Errors
    /// I/O errors, and the errors of `sink`.
    #[doc(hidden)]
    pub fn try_feed(
        &self,
        range: Range<u64>,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        check_inside(self, &range)?;
        if let Bytes::Owned(bytes) = &self.bytes {
            return sink(zstn_core::bytes::part(bytes, range));
        }
        let longest = PIECE_BYTES.min(range.end - range.start);
        let mut buffer = zstn_core::bytes::buffer(longest)?;
        let mut at = range.start;
        while at < range.end {
            let len = zstn_core::bytes::index(PIECE_BYTES.min(range.end - at));
            let piece = &mut buffer[..len];
            self.read_into(at, piece)?;
            sink(piece)?;
            at += len as u64;
        }
        Ok(())
    }

    /// Returns the digest of `range`. The first call for this range computes it with
    /// `compute`, while other threads wait.
    pub(crate) fn digest_once(
        &self,
        range: Range<u64>,
        compute: impl FnOnce() -> Result<[u8; 8]>,
    ) -> Result<[u8; 8]> {
        let mut known = self.digest.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((of, digest)) if *of == range => Ok(*digest),
            _ => {
                let digest = compute()?;
                *known = Some((range, digest));
                Ok(digest)
            }
        }
    }

    /// Advises the system that the bytes of `range` will be read soon, so that the disk
    /// can load them in the meantime.
    pub(crate) fn will_need(&self, range: Range<u64>) {
        if let Bytes::Joined(joined) = &self.bytes {
            return joined.will_need(range);
        }
        #[cfg(target_os = "linux")]
        if let (Some((file, start)), Some(len)) = (
            self.file(),
            std::num::NonZeroU64::new(range.end.saturating_sub(range.start)),
        ) {
            // Failed advice has no effect on the result.
            let _ = rustix::fs::fadvise(
                file,
                start + range.start,
                Some(len),
                rustix::fs::Advice::WillNeed,
            );
        }
        #[cfg(not(target_os = "linux"))]
        let _ = range;
    }

    /// Begins to fetch `ranges` of a remote file, which do not overlap and will be read
    /// once each, in about this order. The bytes that wait to be read take at most
    /// `max_bytes` of memory.
    pub(crate) fn read_ahead(&self, ranges: impl Iterator<Item = Range<u64>>, max_bytes: u64) {
        if let Bytes::Remote(remote) = &self.bytes {
            remote.begin(ranges, max_bytes);
        }
    }

    /// Returns the file, and the offset of the first byte in it.
    fn file(&self) -> Option<(&File, u64)> {
        match &self.bytes {
            Bytes::File(version) => Some((version.file(), 0)),
            Bytes::Private { file, range } => Some((file, range.start)),
            Bytes::Owned(_)
            | Bytes::Stored(_)
            | Bytes::Remote(_)
            | Bytes::Joined(_)
            | Bytes::Mixed(_) => None,
        }
    }
}

impl Source for Local {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_remote(&self) -> bool {
        matches!(self.bytes, Bytes::Remote(_))
    }

    fn is_in_memory(&self) -> bool {
        matches!(self.bytes, Bytes::Owned(_))
    }

    fn file_ids(&self) -> &[FileId] {
        &self.file_ids
    }

    fn check_unchanged(&self) -> Result<()> {
        match &self.bytes {
            Bytes::File(version) => version.check_unchanged(&self.name),
            Bytes::Remote(remote) => remote.source().check_unchanged(),
            Bytes::Joined(joined) => {
                let mut files = joined.files().iter();
                files.try_for_each(|file| file.check_unchanged())
            }
            Bytes::Mixed(mixed) => mixed.check_unchanged(),
            Bytes::Private { .. } | Bytes::Owned(_) | Bytes::Stored(_) => Ok(()),
        }
    }

    fn len_bytes(&self) -> u64 {
        match &self.bytes {
            Bytes::File(version) => version.len_bytes(),
            Bytes::Private { range, .. } => range.end - range.start,
            Bytes::Owned(bytes) => bytes.len() as u64,
            Bytes::Stored(stored) => stored.len_bytes(),
            Bytes::Remote(remote) => remote.source().len_bytes(),
            Bytes::Joined(joined) => joined.len_bytes(),
            Bytes::Mixed(mixed) => mixed.len_bytes(),
        }
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        check_inside(self, &range)?;
        if let Bytes::Owned(bytes) = &self.bytes {
            return Ok(Cow::Borrowed(zstn_core::bytes::part(bytes, range)));
        }
        let mut bytes = zstn_core::bytes::buffer(range.end - range.start)?;
        self.read_into(range.start, &mut bytes)?;
        Ok(Cow::Owned(bytes))
    }

    fn read_into(&self, start: u64, out: &mut [u8]) -> Result<()> {
        let range = start..start.saturating_add(out.len() as u64);
        check_inside(self, &range)?;
        match &self.bytes {
            Bytes::Owned(bytes) => {
                out.copy_from_slice(zstn_core::bytes::part(bytes, range));
                Ok(())
            }
            Bytes::File(version) => version.read_into(&self.name, start, out),
            Bytes::Stored(stored) => stored.read_into(&self.name, start, out),
            Bytes::Remote(remote) => remote.read_into(start, out),
            Bytes::Joined(joined) => joined.read_into(start, out),
            Bytes::Mixed(mixed) => mixed.read_into(start, out),
            Bytes::Private { file, range } => {
                read_exact_at(file, &self.name, range.start, start, out)
            }
        }
    }
}
