//! Storing packed files in the folder of results.

use std::fs::File;
use std::io::{self, Read};

use super::packer::Packed;
use super::{Failure, stream_sha256};
use crate::manifest::Results;
use crate::proof::{StoredFile, check_restores};
use zstn::internals::{Output, Unpublished};
use zstn::source::HttpOptions;
use zstn::{Engine, Error, Location, Progress, Result};

/// A folder of results with the options for accessing it.
pub(super) struct Store<'a> {
    pub(super) results: &'a Results,
    pub(super) http: &'a HttpOptions,
    pub(super) engine: &'a Engine,
    pub(super) memory_bytes: Option<u64>,
    pub(super) progress: &'a dyn Progress,
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
    pub(super) fn store(&self, packed: &mut Packed, bases: &[Location]) -> Result<(), Failure> {
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
