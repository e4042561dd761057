//! Packing one object for storage, and restoring it.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use zstn_core::ErrorKind as RefusalKind;
use zstn_core::catalog::{FileKind, recognise};
use zstn_core::container::zstn::{ContainerPrefix, parse_sha256};
use zstn_core::limits::HEAD_LEN_BYTES;

use super::git_repository::Scratch;
use super::messages::Stage;
use super::store::{ENVELOPE, HEAD_BYTES, Oid, StoredFormat};
use crate::proof::{hex, restored};
use zstn::internals::regular;
use zstn::source::{HttpOptions, Local, Source};
use zstn::{
    Engine, Error, Job, Location, PackOptions, Progress, Reader, Result, Sink, UnpackOptions,
    VerifyOptions, View, pack, unpack, verify,
};

/// Packs and unpacks objects.
pub(super) struct ObjectPacker<'a> {
    pub(super) engine: &'a Engine,
    pub(super) memory_bytes: u64,
    /// True if extension frames are written where they are smaller.
    pub(super) extended: bool,
    pub(super) scratch: &'a Scratch,
}

/// An object as it is to be stored; it is the whole content of `file`.
pub(super) struct Stored {
    pub(super) file: File,
    pub(super) len_bytes: u64,
}

/// A stored object that has been fetched.
pub(super) struct Fetched {
    input: Local,
    /// The scratch file that was created for it, if any.
    path: Option<PathBuf>,
}

impl ObjectPacker<'_> {
    /// Returns a job that `progress` watches.
    fn job<'p>(&self, progress: &'p dyn Progress) -> Job<'p> {
        Job::new()
            .engine(self.engine)
            .memory_bytes(self.memory_bytes)
            .progress(progress)
    }

    /// Packs the file at `original` if it is a model whose format its first bytes show,
    /// and gets smaller. The packed file is decoded and compared with the original, and
    /// its SHA-256 with `oid` if that is given. Returns `None` for other files.
    ///
    /// # Errors
    /// If the file changes meanwhile, or differs from `oid`; I/O errors.
    pub(super) fn pack(
        &self,
        original: &Path,
        oid: Option<&Oid>,
        packing: &dyn Progress,
        checking: &dyn Progress,
    ) -> Result<Option<Stored>> {
        let (head, len_bytes) = head(original)?;
        let is_model = match recognise(&head, len_bytes) {
            Ok(FileKind::Safetensors) => true,
            Ok(FileKind::Zstn | FileKind::Delta) | Err(_) => false,
            // Any zip archive may be one of NumPy, so the list of tensors decides. A GGUF
            // file is opened by itself.
            Ok(_) => {
                let options = Reader::options().engine(self.engine).view(View::Stored);
                options.open(original).is_ok()
            }
        };
        if !is_model {
            return Ok(None);
        }
        let path = self.scratch.path("packed");
        let mut options = PackOptions::default().extended(self.extended);
        if let Some(oid) = oid {
            options = options.checked_sha256(parse_sha256(oid.as_str())?);
        }
        match pack(&self.job(packing), original, Sink::path(&path), &options) {
            Ok(report) if report.packed_bytes() < len_bytes => {}
            Ok(_) => return Ok(None),
            // The file only looks like a model, or is truncated.
            Err(Error::Format { .. } | Error::Core(_)) => return Ok(None),
            Err(error) => return Err(error),
        }
        let options = VerifyOptions::default().original(original);
        verify(&self.job(checking), &path, &options)?;
        let file = File::open(&path).map_err(Error::file("open", &path))?;
        Stored::new(file, &path).map(Some)
    }

    /// Returns the file at `original` as it is stored unpacked.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn plain(&self, original: &Path) -> Result<Stored> {
        let (head, _) = head(original)?;
        let mut from = regular::open(original).map_err(Error::file("open", original))?;
        if !StoredFormat::needs_envelope(&head) {
            return Stored::new(from, original);
        }
        let (mut file, path) = self.scratch.file("enveloped")?;
        let copied = file
            .write_all(&ENVELOPE)
            .and_then(|()| io::copy(&mut from, &mut file))
            .and_then(|_| file.rewind());
        copied.map_err(Error::file("write", &path))?;
        Stored::new(file, &path)
    }

    /// Fetches a stored object. `len_bytes` is the length of the original. An object is
    /// at most an envelope longer than that.
    ///
    /// # Errors
    /// If the object is longer than that; errors of reading.
    pub(super) fn fetch(
        &self,
        location: &Location,
        http: &HttpOptions,
        len_bytes: u64,
        progress: &Stage<'_>,
    ) -> Result<Fetched, Fault> {
        let most = len_bytes.saturating_add(HEAD_BYTES as u64);
        let mut http = http.clone();
        http.max_unsized_bytes = most;
        let watch = |so_far: u64, total: Option<u64>| progress.at(so_far, total.unwrap_or(most));
        let fetched = match location.feed(&http).map_err(Fault::of_reading)? {
            Some(mut feed) => {
                check_most(feed.len_bytes().unwrap_or(0), most)?;
                let (file, path) = self.scratch.file("fetched")?;
                Fetched {
                    input: feed.copy(file, 0, &watch)?,
                    path: Some(path),
                }
            }
            None => Fetched {
                input: location.fetch(&http, &watch).map_err(Fault::of_reading)?,
                path: None,
            },
        };
        check_most(fetched.input.len_bytes(), most)?;
        Ok(fetched)
    }

    /// Restores the original of `len_bytes` from a stored object, as a scratch file
    /// named by `oid`. The file is removed after an error.
    ///
    /// # Errors
    /// If the object is damaged, or restores another length or other bytes; I/O errors.
    pub(super) fn restore(
        &self,
        fetched: Fetched,
        len_bytes: u64,
        oid: &Oid,
        progress: &dyn Progress,
    ) -> Result<PathBuf, Fault> {
        let restored = self.restore_unchecked(fetched, len_bytes, oid.as_str(), progress);
        let checked = restored.and_then(|path| {
            same(&Oid::of_file(&path)?, oid)?;
            Ok(path)
        });
        if checked.is_err() {
            self.scratch.remove(oid.as_str());
        }
        checked
    }

    /// Checks that a stored object restores the original, like [`Self::restore`], but
    /// without writing a file.
    ///
    /// # Errors
    /// The errors of [`Self::restore`].
    pub(super) fn check(
        &self,
        fetched: Fetched,
        len_bytes: u64,
        oid: &Oid,
        progress: &dyn Progress,
    ) -> Result<(), Fault> {
        let input = fetched.input;
        let start = match format_of(&input, len_bytes)? {
            StoredFormat::Packed => {
                let found = restored(&self.job(progress), input, &UnpackOptions::default())?;
                return same(&found.parse()?, oid);
            }
            StoredFormat::Plain => 0,
            StoredFormat::Enveloped => ENVELOPE.len() as u64,
        };
        let mut sum = Sha256::new();
        input.feed(start..input.len_bytes(), &mut |piece| {
            sum.update(piece);
            progress.advance(piece.len() as u64);
        })?;
        input.check_unchanged()?;
        same(&hex(&sum.finalize()).parse()?, oid)
    }

    /// Restores the original without checking its SHA-256. After an error, a partial
    /// file may remain.
    fn restore_unchecked(
        &self,
        fetched: Fetched,
        len_bytes: u64,
        name: &str,
        progress: &dyn Progress,
    ) -> Result<PathBuf, Fault> {
        let Fetched { input, path } = fetched;
        let target = self.scratch.path(name);
        let start = match format_of(&input, len_bytes)? {
            StoredFormat::Packed => {
                let options = UnpackOptions::default();
                unpack(&self.job(progress), input, Sink::path(&target), &options)?;
                return Ok(target);
            }
            StoredFormat::Plain => 0,
            StoredFormat::Enveloped => ENVELOPE.len() as u64,
        };
        if let (Some(path), 0) = (path, start) {
            return match std::fs::rename(&path, &target) {
                Ok(()) => Ok(target),
                Err(error) => Err(Error::file("rename", &path)(error).into()),
            };
        }
        let (mut file, _) = self.scratch.file(name)?;
        input.try_feed(start..input.len_bytes(), &mut |piece| {
            file.write_all(piece)
                .map_err(Error::file("write", &target))?;
            progress.advance(piece.len() as u64);
            Ok(())
        })?;
        Ok(target)
    }

    /// Removes the scratch files of an object.
    pub(super) fn tidy(&self) {
        for name in ["packed", "enveloped", "fetched"] {
            self.scratch.remove(name);
        }
    }
}

impl Stored {
    fn new(file: File, path: &Path) -> Result<Self> {
        let metadata = file.metadata().map_err(Error::file("read", path))?;
        Ok(Self {
            file,
            len_bytes: metadata.len(),
        })
    }
}

/// Returns the first bytes of a file and its length.
fn head(path: &Path) -> Result<(Vec<u8>, u64)> {
    let read = || -> io::Result<_> {
        let file = regular::open(path)?;
        let len_bytes = file.metadata()?.len();
        let mut head = Vec::new();
        file.take(HEAD_LEN_BYTES).read_to_end(&mut head)?;
        Ok((head, len_bytes))
    };
    read().map_err(Error::file("read", path))
}

/// Returns the format of a stored object, after checking that it restores `len_bytes`
/// bytes.
fn format_of(input: &Local, len_bytes: u64) -> Result<StoredFormat, Fault> {
    let format = StoredFormat::of(&input.head(HEAD_BYTES as u64)?)?;
    let found = match format {
        StoredFormat::Packed => {
            let place = Error::place(input.name());
            let (head, len) = (input.head(HEAD_LEN_BYTES)?, input.len_bytes());
            let prefix_len = ContainerPrefix::len_bytes(&head, len).map_err(&place)?;
            let prefix = ContainerPrefix::parse(&input.head(prefix_len)?, len).map_err(&place)?;
            prefix.original_len_bytes()
        }
        StoredFormat::Plain => input.len_bytes(),
        StoredFormat::Enveloped => input.len_bytes() - ENVELOPE.len() as u64,
    };
    check_len(found, len_bytes)?;
    Ok(format)
}

fn same(found: &Oid, expected: &Oid) -> Result<(), Fault> {
    match found == expected {
        true => Ok(()),
        false => Err(Fault::Digest(found.clone())),
    }
}

fn check_len(found: u64, expected: u64) -> Result<(), Fault> {
    match found == expected {
        true => Ok(()),
        false => Err(Fault::Length(format!(
            "it has {found} bytes instead of {expected}"
        ))),
    }
}

/// Refuses an object of `found` bytes if it is longer than `most`, the maximum length of
/// any stored format of the original.
fn check_most(found: u64, most: u64) -> Result<(), Fault> {
    match found <= most {
        true => Ok(()),
        false => Err(Fault::Length(format!(
            "it has {found} bytes, more than the original"
        ))),
    }
}

/// The reason why a stored object cannot be restored. Only some of the reasons justify
/// deleting the object.
#[derive(Debug)]
pub(super) enum Fault {
    /// No object exists at the location.
    Missing,
    /// The length differs from the one in the pointer.
    Length(String),
    /// The restored bytes have this SHA-256 instead of the expected one.
    Digest(Oid),
    /// Another error, possibly of this machine.
    Other(Error),
}

impl Fault {
    /// Classifies an error of opening or reading an object. Use it only for those: a
    /// file that is missing during another step does not mean that the object is
    /// missing.
    pub(super) fn of_reading(error: Error) -> Self {
        let is_missing = match &error {
            Error::Io { source, .. } => source.kind() == ErrorKind::NotFound,
            Error::Http { status, .. } => matches!(status, Some(404 | 410)),
            _ => false,
        };
        match is_missing {
            true => Self::Missing,
            false => Self::Other(error),
        }
    }

    /// Returns an error that states what to do. `size` is the length in the pointer, in
    /// bytes.
    pub(super) fn describe(self, location: &Location, oid: &Oid, size: u64) -> Error {
        let push = format!(
            "delete it, and push the object from a clone that has it (git lfs push --object-id \
             REMOTE {oid})"
        );
        let damaged = |reason: &str| Error::Differs {
            detail: format!("{location} is damaged: {reason}; {push}"),
        };
        let error = match self {
            Self::Missing => {
                let detail = "the object is not there; push it from a clone that has it (git lfs \
                              push --all REMOTE)";
                return Error::http(&location.to_string(), detail, Some(404));
            }
            Self::Length(reason) => {
                return Error::Differs {
                    detail: format!(
                        "{location} does not match its pointer, which names {size} bytes: \
                         {reason}; compare the size in the pointer with that of the file in a \
                         clone that \
                         has it. If the pointer is right, the object is damaged: {push}"
                    ),
                };
            }
            Self::Digest(found) => return damaged(&format!("its bytes have the SHA-256 {found}")),
            Self::Other(error) => error,
        };
        let reason = error.to_string();
        let name = format!("{location}: ");
        let reason = reason.strip_prefix(&name).unwrap_or(&reason);
        match &error {
            Error::Io { .. } | Error::Http { .. } => error,
            Error::Format { source, .. } | Error::Core(source)
                if source.kind() == RefusalKind::Malformed =>
            {
                damaged(reason)
            }
            _ => Error::Differs {
                detail: format!("{location} cannot be restored: {reason}"),
            },
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}
