//! Temporary files: unnamed ones in the system's folder, and the hidden names of
//! unfinished outputs.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

use tempfile::NamedTempFile;

use super::fallbacks;
use crate::{Error, Result};

/// The environment variable that selects the folder for temporary files.
const VARIABLE: &str = if cfg!(windows) { "TMP" } else { "TMPDIR" };

/// Creates an empty file that the system removes once it is closed.
pub fn create() -> Result<File> {
    tempfile::tempfile().map_err(failed("create"))
}

/// Returns the error for an `action`, a verb, that failed on an unnamed file. The
/// message names the folder, because the most frequent cause is a lack of space there.
pub fn failed(action: &str) -> impl FnOnce(io::Error) -> Error {
    let folder = std::env::temp_dir();
    let action = format!(
        "{action} a temporary file in {} ({VARIABLE} chooses another folder)",
        folder.display()
    );
    // The random name of the file would not help the user.
    move |error| Error::io(action, without_path(error))
}

/// The suffix of the name of an unfinished file or folder. No other program uses it, so
/// the leftovers of a killed run are recognised by it.
pub(super) const PART_SUFFIX: &str = ".zstn.part";

/// Returns the prefix of the hidden name of an unfinished output. File names may have
/// up to 255 bytes; a longer one is cut so that the rest of the hidden name fits.
pub(super) fn hidden_prefix(output: &Path) -> String {
    const MAX_BYTES: usize = 200;
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    let mut end = name.len().min(MAX_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!(".{}.", &name[..end])
}

/// Renames a complete file to `target`, which may exist if `replace` is true.
pub(super) fn give_name(file: NamedTempFile, target: &Path, replace: bool) -> io::Result<()> {
    if replace {
        return fallbacks::rename(file, target, true);
    }
    match file.persist_noclobber(target) {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Err(error.error),
        // Some file systems cannot check and rename in one step.
        Err(error) => match target.symlink_metadata() {
            Ok(_) => Err(ErrorKind::AlreadyExists.into()),
            Err(_) => fallbacks::rename(error.file, target, false),
        },
    }
}

/// Removes the attempted path from a system error, because the user did not give that
/// path.
pub(super) fn without_path(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => match error.kind() {
            ErrorKind::Other => error,
            // Given an error code of POSIX, the system supplies the text of the
            // message.
            #[cfg(unix)]
            ErrorKind::NotFound => io::Error::from_raw_os_error(2),
            #[cfg(unix)]
            ErrorKind::PermissionDenied => io::Error::from_raw_os_error(13),
            kind => kind.into(),
        },
    }
}

/// Returns the folder that contains `path`.
pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
