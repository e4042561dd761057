//! The file that contains an output's bytes until it is complete.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::cleanup::{Shown, Unfinished, create_file, shown};
use super::stream::Pending;
use super::temporary::{self, hidden_prefix, parent, without_path};
use crate::{Error, Result};

/// The storage for the bytes of an output until it is complete.
pub(super) enum Backing<'a> {
    /// A file in the folder of the target, under a hidden name.
    Hidden {
        file: NamedTempFile,
        unfinished: Unfinished,
        target: PathBuf,
    },
    /// An unnamed file that only this process uses.
    Unnamed(File),
    /// An unnamed file for the bytes that are not final yet, and a receiver for final
    /// ones.
    Pending(Pending<'a>),
}

impl Backing<'_> {
    /// Creates a hidden file that will be renamed to `target`. Messages use `path`, the
    /// path that the caller gave.
    pub(super) fn hidden(path: &Path, target: PathBuf) -> Result<Self> {
        let mut builder = tempfile::Builder::new();
        let prefix = hidden_prefix(path);
        builder.prefix(&prefix);
        let folder = parent(&target);
        let made = Unfinished::create(
            Shown::Output(path.into()),
            || create_file(folder, &mut builder),
            NamedTempFile::path,
        );
        // The original error would name the hidden file.
        let (unfinished, file) = made.map_err(|error| {
            let action = format!("write into {}", shown(folder).display());
            Error::io(action, without_path(error))
        })?;
        Ok(Self::Hidden {
            file,
            unfinished,
            target,
        })
    }

    /// Returns the file with the bytes that may still be revised.
    pub(super) fn file(&self) -> &File {
        match self {
            Self::Hidden { file, .. } => file.as_file(),
            Self::Unnamed(file) => file,
            Self::Pending(pending) => pending.file(),
        }
    }

    /// Returns the position in [`Backing::file`] of an offset in the output.
    pub(super) fn position(&self, offset_bytes: u64) -> u64 {
        match self {
            Self::Pending(pending) => pending.position(offset_bytes),
            _ => offset_bytes,
        }
    }

    /// Writes at an offset of the output; several threads may call this at the same
    /// time.
    pub(super) fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> io::Result<()> {
        write_all_at(self.file(), bytes, self.position(offset_bytes))
    }

    /// Returns the error for an `action`, a verb, that failed on the file of the
    /// output called `name`.
    pub(super) fn failed(&self, action: &str, name: &str, error: io::Error) -> Error {
        match self {
            Self::Hidden { .. } => Error::io(format!("{action} {name}"), error),
            _ => temporary::failed(action)(error),
        }
    }
}

#[cfg(unix)]
fn write_all_at(file: &File, bytes: &[u8], offset_bytes: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset_bytes)
}

#[cfg(windows)]
fn write_all_at(file: &File, mut bytes: &[u8], mut offset_bytes: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !bytes.is_empty() {
        let len = file.seek_write(bytes, offset_bytes)?;
        if len == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[len..];
        offset_bytes += len as u64;
    }
    Ok(())
}
