//! Unnamed files in the system's folder for temporary files.

use std::fs::File;
use std::io;

use super::hidden::without_path;
use crate::{Error, Result};

/// The environment variable that selects the folder.
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
