//! Opens a file, from its first bytes to its [`FileCatalog`], in as few reads
//! as possible. Most formats take two round trips, whatever the size of the
//! model. All requests are absolute ranges, because browsers require a CORS
//! preflight for a range relative to the end of a file.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::format::AnyOpener;
#[cfg(feature = "onnx")]
use super::onnx;
use super::{FileCatalog, FileKind};
#[cfg(feature = "hdf5")]
use crate::container::foreign::hdf5;
#[cfg(feature = "tar")]
use crate::container::foreign::tar;
#[cfg(feature = "tflite")]
use crate::container::foreign::tflite;
use crate::container::safetensors;
#[cfg(not(feature = "virtual-headers"))]
use crate::container::zstn::has_virtual_header;
use crate::engine::Engine;
use crate::frame::{self, Family};
use crate::limits::HEAD_LEN_BYTES;
use crate::{Error, Result, Rule, bytes};

const SAFETENSORS_EXTENSION: &str = ".safetensors";
/// The extension of files that are recognised by their name and their first
/// bytes, since their format has no magic number.
#[cfg(feature = "onnx")]
const ONNX_EXTENSION: &str = ".onnx";
#[cfg(feature = "msgpack")]
const MSGPACK_EXTENSION: &str = ".msgpack";

/// Returns the format of a file without a magic number, if its `name` has the
/// extension of such a format and it begins with plausible bytes.
fn by_name(name: &str, head: &[u8]) -> Option<FileKind> {
    let kind = format_of_extension(name)?;
    let is_plausible = match (kind, head) {
        #[cfg(feature = "onnx")]
        (FileKind::Onnx, head) => onnx::is_plausible(head),
        #[cfg(feature = "msgpack")]
        (FileKind::Msgpack, [0x80..=0x8f | 0xde | 0xdf, ..]) => true,
        _ => false,
    };
    is_plausible.then_some(kind)
}

/// Returns the format that the file called `name`, or with this path or address, may only
/// have because of its extension, since the format has no magic number. The extension of
/// any other file of another format than safetensors does not matter.
#[must_use]
pub fn format_of_extension(name: &str) -> Option<FileKind> {
    #[cfg(feature = "onnx")]
    if ends_in(name, ONNX_EXTENSION) {
        return Some(FileKind::Onnx);
    }
    #[cfg(feature = "msgpack")]
    if ends_in(name, MSGPACK_EXTENSION) {
        return Some(FileKind::Msgpack);
    }
    let _ = name;
    None
}

/// Returns whether the file name, path or address `name` has an extension, which begins
/// with a dot. The case of letters and the query of an address do not count.
fn ends_in(name: &str, extension: &str) -> bool {
    let name = match name.contains("://") {
        true => name.split(['?', '#']).next().unwrap_or(name),
        false => name,
    };
    let start = name.len().checked_sub(extension.len());
    let end = start.and_then(|start| name.get(start..));
    end.is_some_and(|end| end.eq_ignore_ascii_case(extension))
}

fn by_magic(head: &[u8]) -> Option<FileKind> {
    let is_of = |kind: &FileKind| kind.magics().iter().any(|magic| head.starts_with(magic));
    let found = FileKind::FILES.iter().copied().find(is_of);
    // The length of a safetensors header may have the bytes of a magic number of zip
    // archives. A zip archive has the method of its first member after them.
    #[cfg(feature = "zip")]
    let found = found.filter(|kind| {
        let has_length = head.get(4..8) == Some(&[0; 4]) && head.len() > 8;
        *kind != FileKind::Npz || !(has_length && begins_header(head.get(8)))
    });
    // A tar archive may have a file of another format behind its first header.
    #[cfg(feature = "tar")]
    let found = found.or_else(|| {
        let has_length = head.get(4..8) == Some(&[0; 4]) && begins_header(head.get(8));
        (tar::is_tar(head) && !has_length).then_some(FileKind::Tar)
    });
    #[cfg(feature = "tflite")]
    let found = found.or_else(|| tflite::is_tflite(head).then_some(FileKind::Tflite));
    #[cfg(feature = "hdf5")]
    let found = found.or_else(|| hdf5::superblock_at(head).map(|_| FileKind::Hdf5));
    found
}

/// Returns whether `byte` can be the first byte of a safetensors header.
/// `None`, for a file that ends before its header, counts as possible.
pub(super) fn begins_header(byte: Option<&u8>) -> bool {
    byte.is_none_or(|byte| b"{ \t\r\n".contains(byte))
}

/// Recognises the format of a file of `file_len_bytes` by its first bytes. Use
/// [`recognise_named`] for a file whose name is known.
///
/// # Errors
/// If the format is none that this build reads. The error describes the
/// apparent format of the file.
pub fn recognise(head: &[u8], file_len_bytes: u64) -> Result<FileKind> {
    recognise_named("", head, file_len_bytes)
}

/// Recognises the format of the file called `name`, or with this path or
/// address, like [`recognise`]. Some formats have no magic number: ONNX models
/// have to end in `.onnx`, and msgpack files in `.msgpack`.
///
/// # Errors
/// The errors of [`recognise`].
pub fn recognise_named(name: &str, head: &[u8], file_len_bytes: u64) -> Result<FileKind> {
    #[cfg(feature = "other-formats")]
    if head.starts_with(&crate::sketch::MAGIC) {
        return Err(Error::unsupported(
            "this is a sketch for `--base auto`; it has no tensors",
        ));
    }
    match by_magic(head) {
        Some(kind) if kind.is_included() => return Ok(kind),
        Some(_) => return Err(Error::left_out()),
        None => {}
    }
    if let Some(kind) = by_name(name, head) {
        return Ok(kind);
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
        return Ok(FileKind::Safetensors);
    }
    let detail = match head.trim_ascii_start() {
        [] => "the file is empty".into(),
        _ => format!(
            "this is not a ZSTN, Z4DM, zTensor, Gauss, GGUF, NPY, NPZ, PyTorch, ONNX, msgpack, TFLite, HDF5, tar or safetensors file: its first bytes are {}",
            frame::printable(&head[..head.len().min(8)])
        ),
    };
    Err(Error::malformed(Rule::Recognised, detail).at(0))
}

/// Returns whether a file of `file_len_bytes` with this name, path or address and these
/// first bytes is neither packed nor a safetensors file, not even a damaged one. Such a
/// file is packed with a virtual header (docs/formats/zstn-virtual-header.md).
///
/// A file whose name ends in `.safetensors` counts as safetensors whatever it contains,
/// because the name of its packed file says so. Web pages and Git LFS pointers are failed
/// downloads of a model, and are not packed.
#[must_use]
pub fn is_other_format(name: &str, head: &[u8], file_len_bytes: u64) -> bool {
    if ends_in(name, SAFETENSORS_EXTENSION) {
        return false;
    }
    if safetensors::unreadable_header_len_bytes(head, file_len_bytes).is_some() {
        return false;
    }
    match recognise(head, file_len_bytes) {
        Ok(kind) => !matches!(
            kind,
            FileKind::Safetensors | FileKind::Zstn | FileKind::Delta
        ),
        Err(error) => match error.rule() {
            #[cfg(all(feature = "other-formats", feature = "virtual-headers"))]
            Some(Rule::Recognised) => !super::other_format::is_failed_download(head),
            #[cfg(not(all(feature = "other-formats", feature = "virtual-headers")))]
            Some(Rule::Recognised) => true,
            // A safetensors header begins with a brace. White space at this place is
            // more likely text of another file.
            Some(_) => head.get(8) != Some(&b'{'),
            None => false,
        },
    }
}

/// Returns the sentence with which a packer refuses the file called `name`, because its
/// format is `kind` and its name states safetensors ([`is_other_format`]).
#[must_use]
pub fn misnamed(name: &str, kind: FileKind) -> String {
    format!(
        "{name} is a file of the format {}, not safetensors; pack it under the name of its format, \
         or `convert` it",
        kind.name()
    )
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
    /// [`head_len_bytes`](Self::head_len_bytes). Use [`FileOpener::named`] for a
    /// file whose name is known.
    pub fn new(file_len_bytes: u64, head: Vec<u8>) -> Result<Self> {
        Self::named("", file_len_bytes, head)
    }

    /// Starts to open the file called `name`, or with this path or address,
    /// like [`FileOpener::new`]. The name matters for formats without a magic
    /// number ([`recognise_named`]).
    pub fn named(name: &str, file_len_bytes: u64, head: Vec<u8>) -> Result<Self> {
        let kind = recognise_named(name, &head, file_len_bytes)?;
        Self::of_kind(kind, file_len_bytes, head)
    }

    /// Starts to open a file like [`FileOpener::new`], whose format the caller has
    /// recognised. A program that only opens files with it does not contain the code
    /// that recognises formats.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for a format that this build omits,
    /// and the errors of a file that is not of this format.
    pub fn of_kind(kind: FileKind, file_len_bytes: u64, head: Vec<u8>) -> Result<Self> {
        if (head.len() as u64) < Self::head_len_bytes(file_len_bytes) {
            return Err(Error::invalid_input("the head of the file is too short"));
        }
        #[cfg(not(feature = "virtual-headers"))]
        if kind == FileKind::Zstn && has_virtual_header(&head) {
            return Err(Error::left_out());
        }
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
    /// grow by half for a Gauss, GGUF or PyTorch file, by six for a zip archive, by a
    /// few hundred for an ONNX or msgpack file or a tar archive of more than 8 MiB, by the
    /// number of structures that refer to each other for TensorFlow Lite and HDF5, and by
    /// three for other files. A file inside of an archive adds its own rounds.
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

/// The bytes of a file that have been fetched so far: a head, a tail, and an
/// optional window between them. The head grows at its end, the tail at its
/// beginning.
#[derive(Debug, Clone)]
pub(super) struct FetchedRanges {
    len_bytes: u64,
    /// The first bytes of the file.
    head: Vec<u8>,
    /// The last bytes of the file.
    tail: Vec<u8>,
    window: Window,
}

#[derive(Debug, Clone, Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl FetchedRanges {
    pub(super) fn new(len_bytes: u64, head: Vec<u8>) -> Self {
        Self {
            len_bytes,
            head,
            tail: Vec::new(),
            window: Window::default(),
        }
    }

    /// Returns the length of the whole file.
    pub(super) fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Returns the offset at which the tail begins.
    pub(super) fn tail_start(&self) -> u64 {
        self.len_bytes - self.tail.len() as u64
    }

    /// Returns the offset from which everything up to the end of the file has
    /// been fetched.
    pub(super) fn tail_from(&self) -> u64 {
        match self.tail_start() {
            start if start <= self.head.len() as u64 => 0,
            start => start,
        }
    }

    /// Returns the range between the head and `end`, or `None` if the head
    /// reaches `end`.
    pub(super) fn missing_head(&self, end: u64) -> Option<Range<u64>> {
        let have = self.head.len() as u64;
        (have < end).then_some(have..end)
    }

    /// Appends bytes to the head or prepends them to the tail, whichever they
    /// touch.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if they touch neither.
    pub(super) fn supply(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        if offset_bytes == self.head.len() as u64 {
            self.head.extend_from_slice(bytes);
        } else if offset_bytes.checked_add(bytes.len() as u64) == Some(self.tail_start()) {
            let mut tail = bytes.to_vec();
            tail.append(&mut self.tail);
            self.tail = tail;
        } else {
            return Err(Error::invalid_input("these bytes were not requested"));
        }
        Ok(())
    }

    /// Returns the fetched bytes around the offset `at`, and the offset at which
    /// they begin: the window if it contains `at`, otherwise the head if it does.
    #[cfg(any(feature = "msgpack", feature = "onnx", feature = "tar"))]
    pub(super) fn around(&self, at: u64) -> (u64, &[u8]) {
        let (start, bytes) = self.window();
        let is_in_window = at >= start && at - start < bytes.len() as u64;
        match !is_in_window && at < self.head.len() as u64 {
            true => (0, &self.head),
            false => (start, bytes),
        }
    }

    /// Returns the offset and the bytes of the window.
    #[cfg(any(
        feature = "hdf5",
        feature = "msgpack",
        feature = "onnx",
        feature = "tar",
        feature = "tflite"
    ))]
    pub(super) fn window(&self) -> (u64, &[u8]) {
        (self.window.start, &self.window.bytes)
    }

    /// Replaces the window with these bytes.
    #[cfg(any(
        feature = "deltas",
        feature = "hdf5",
        feature = "msgpack",
        feature = "onnx",
        feature = "tflite",
        feature = "zip",
        feature = "ztensor"
    ))]
    pub(super) fn supply_window(&mut self, start: u64, bytes: &[u8]) {
        self.window = Window {
            start,
            bytes: bytes.to_vec(),
        };
    }

    /// Returns the ranges that have been fetched. They may overlap.
    #[cfg(feature = "zip")]
    pub(super) fn ranges(&self) -> [Range<u64>; 3] {
        let Window { start, bytes } = &self.window;
        [
            0..self.head.len() as u64,
            *start..start + bytes.len() as u64,
            self.tail_start()..self.len_bytes,
        ]
    }

    /// Returns the bytes of `range`, or `None` if some of them have not been
    /// fetched.
    pub(super) fn part(&self, range: Range<u64>) -> Option<Cow<'_, [u8]>> {
        let head_end = self.head.len() as u64;
        let tail_start = self.tail_start();
        if range.end <= head_end {
            return Some(bytes::part(&self.head, range).into());
        }
        let Window { start, bytes } = &self.window;
        if range.start >= *start && range.end <= start + bytes.len() as u64 {
            return Some(bytes::part(bytes, range.start - start..range.end - start).into());
        }
        let from_tail =
            |start: u64| bytes::part(&self.tail, start - tail_start..range.end - tail_start);
        if range.start >= tail_start {
            return Some(from_tail(range.start).into());
        }
        if head_end < tail_start {
            return None;
        }
        let mut joined = bytes::part(&self.head, range.start..head_end).to_vec();
        joined.extend_from_slice(from_tail(head_end));
        Some(joined.into())
    }

    /// Returns the bytes of `range`, which the caller knows to have been
    /// fetched; empty if they have not.
    pub(super) fn have(&self, range: Range<u64>) -> Cow<'_, [u8]> {
        self.part(range).unwrap_or_default()
    }
}
