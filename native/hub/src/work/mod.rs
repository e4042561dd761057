//! The work on one row of a plan: its file is read, packed, verified by restoring it,
//! and stored, and the result is recorded. `zstn worker` and the job of the Python
//! package (`python -m zstn_hub`) share this code, so either can continue where the
//! other was stopped.

use std::fs::File;
use std::io::{self, ErrorKind, Read};

use zstn::internals::{Output, Unpublished};
use zstn::source::HttpOptions;
use zstn::{Engine, Error, Location, Progress, Result};

use crate::hub::Refusal;
use crate::manifest::{Class, Results};
use crate::proof::{StoredFile, check_restores};

mod packer;
mod row_work;

pub(crate) use packer::Packed;
#[cfg(feature = "worker")]
pub(crate) use packer::Packer;
pub use packer::WorkerOptions;
pub use row_work::{Origin, RowOutcome, RowWork, copy_sha256, list_objects, stream_sha256};

/// The reason why a file or a job was not completed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The worker was stopped.
    #[cfg(feature = "worker")]
    Stopped,
    /// The file cannot be packed, or would not get smaller.
    File(String),
    /// Any other error.
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match is_about_file(&error) {
            true => Self::File(error.to_string()),
            false => Self::Error(error),
        }
    }
}

/// Returns whether an error is caused by the file's content or name, so that a retry
/// would fail again.
fn is_about_file(error: &Error) -> bool {
    match error {
        Error::Format { .. } | Error::Core(_) => true,
        // Packing the same bytes again would give the same result.
        Error::Differs { .. } => true,
        // An example is a name that is invalid in an address.
        Error::Usage(_) => true,
        _ => false,
    }
}

/// Returns whether another attempt may succeed after this error.
pub(crate) fn class(error: &Error) -> Class {
    match error {
        Error::Changed { .. } => Class::Retry,
        Error::Hub(_) => match Refusal::in_error(error) {
            Some(Refusal::ParentMoved { .. }) => Class::Retry,
            _ => Class::Refused,
        },
        Error::Http {
            status: Some(400..=407 | 409..=428 | 430..=499),
            ..
        } => Class::Refused,
        Error::Http { .. } => Class::Retry,
        Error::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => Class::Refused,
        Error::Io { .. } => Class::Retry,
        _ => Class::Refused,
    }
}

/// A folder of results with the options for accessing it.
struct Store<'a> {
    results: &'a Results,
    http: &'a HttpOptions,
    engine: &'a Engine,
    memory_bytes: Option<u64>,
    progress: &'a dyn Progress,
}

/// A file whose reads fail once the work has been stopped.
struct Checked<'a> {
    file: File,
    progress: &'a dyn Progress,
}

impl Read for Checked<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.progress.check().map_err(io::Error::other)?;
        self.file.read(out)
    }
}

impl Store<'_> {
    /// Copies a packed file to the folder of results and compares the stored bytes with
    /// it. The packed file has already been verified, so equal bytes restore the
    /// original as well.
    ///
    /// A file may exist already, because a process was stopped before it wrote the
    /// entry, or because the stored file was damaged later. If that file restores the
    /// original, it is kept and `packed.done` is updated to describe it. Otherwise the
    /// new file replaces it.
    fn store(&self, packed: &mut Packed, bases: &[Location]) -> Result<(), Failure> {
        let location = self.results.at("packed", &packed.done.row.packed_name());
        self.stored(packed, &location, bases)
            // An error here is never caused by the original.
            .map_err(Failure::Error)
    }

    fn stored(&self, packed: &mut Packed, location: &Location, bases: &[Location]) -> Result<()> {
        match self.create(packed, location, false) {
            Err(Error::Exists { .. }) => {}
            Err(error) => return Err(error),
            Ok(()) => return self.compare(packed, location),
        }
        let (len_bytes, sha256) = stream_sha256(location, self.http)?;
        if sha256 == packed.done.packed_sha256 {
            return Ok(());
        }
        let mut stored = StoredFile::new(location).http(self.http.clone());
        if let Some(bytes) = self.memory_bytes {
            stored = stored.memory_bytes(bytes);
        }
        for base in bases {
            stored = stored.base(base);
        }
        let stored = stored.sha256(&sha256);
        match check_restores(self.engine, &stored, &packed.done.row.sha256, &()) {
            Ok(()) => {
                packed.done.packed_bytes = len_bytes;
                packed.done.packed_sha256 = sha256;
                Ok(())
            }
            Err(error) if error.is_external() => Err(error),
            Err(_) => {
                self.create(packed, location, true)?;
                self.compare(packed, location)
            }
        }
    }

    fn create(&self, packed: &Packed, location: &Location, replace: bool) -> Result<()> {
        let path = &packed.path;
        let mut output = match location {
            Location::Path(path) if replace => Output::create(path),
            Location::Path(path) => Output::create_new(path),
            Location::Url(url) => Output::to_url(url, replace, self.http),
            Location::Pipe(_) | Location::Stdin => {
                Err(Error::Usage("results need a folder".into()))
            }
        }?;
        let file = File::open(path).map_err(Error::file("open", path))?;
        let progress = self.progress;
        output.copy(&mut Checked { file, progress })?;
        // The packed file counts only with the entry that is written next.
        output.complete(&Unpublished(progress)).map(drop)
    }

    /// Checks that the stored bytes equal the packed file.
    fn compare(&self, packed: &Packed, location: &Location) -> Result<()> {
        let (_, sha256) = stream_sha256(location, self.http)?;
        if sha256 == packed.done.packed_sha256 {
            return Ok(());
        }
        Err(Error::io(
            format!("store {location}"),
            io::Error::other(format!(
                "the stored bytes have the SHA-256 {sha256}, but the bytes that were written have \
                 {}",
                packed.done.packed_sha256
            )),
        ))
    }
}
