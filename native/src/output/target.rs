//! Determines the destination that an output's path names (a file, standard output, a
//! pipe or a device) before anything is written.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::temporary::parent;
use crate::source::{FileId, Source};
use crate::{Error, Result};

/// The maximum number of symbolic links that are followed in a row, as on Linux.
const MAX_LINKS: usize = 40;

/// The destination of an output's bytes when it is complete.
#[derive(Debug)]
pub(super) enum Target {
    /// A regular file that may not exist yet. All links in the path have been followed:
    /// the output replaces the file that they lead to, and the links stay.
    File(PathBuf),
    /// Standard output.
    Stdout,
    /// A pipe or a device such as `/dev/null`, which is written to; on Windows only
    /// `NUL`.
    Stream(PathBuf),
}

impl Target {
    /// Determines the type of the file at `path`.
    ///
    /// # Errors
    /// [`Error::Usage`] for a path without a file name, a folder, a socket or a disk;
    /// I/O errors.
    pub(super) fn of(path: &Path) -> Result<Self> {
        const STDOUT: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
        if STDOUT.iter().any(|name| path.as_os_str() == *name) {
            return Ok(Self::Stdout);
        }
        // `NUL` exists in every folder, and its metadata do not identify it.
        #[cfg(windows)]
        if path.as_os_str().eq_ignore_ascii_case("NUL") {
            return Ok(Self::Stream(path.into()));
        }
        let refused = |what| {
            let detail = format!("{} is {what}; name a file to write", path.display());
            Err(Error::Usage(detail))
        };
        if path.file_name().is_none() {
            return refused("not a file name");
        }
        let metadata = match path.metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let end = end_of_links(path).map_err(Error::file("write", path))?;
                return Ok(Self::File(end));
            }
            Err(error) => return Err(Error::file("write", path)(error)),
        };
        let kind = metadata.file_type();
        if kind.is_file() {
            let real = path.canonicalize().map_err(Error::file("write", path))?;
            return Ok(Self::File(real));
        }
        if kind.is_dir() {
            return refused("a folder");
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::FileTypeExt;
            if kind.is_fifo() || kind.is_char_device() {
                return Ok(Self::Stream(path.into()));
            }
            if kind.is_block_device() {
                return refused("a disk");
            }
        }
        refused("not a regular file")
    }

    /// Returns the path of the file that would be replaced, if there is one.
    pub(super) fn existing(&self) -> Option<&Path> {
        match self {
            Self::File(path) if path.symlink_metadata().is_ok() => Some(path),
            _ => None,
        }
    }
}

/// Refuses `output` if it is a file that one of `inputs` is read from, under any path
/// or link.
pub(crate) fn check_inputs<'a>(
    output: &Path,
    mut inputs: impl Iterator<Item = &'a dyn Source>,
) -> Result<()> {
    let Ok(id) = FileId::of_path(output) else {
        return Ok(()); // no file exists there
    };
    if inputs.any(|input| input.file_ids().contains(&id)) {
        return Err(being_read(output.display()));
    }
    Ok(())
}

/// Returns the error for an output file that is also read as an input.
pub(crate) fn being_read(output: impl std::fmt::Display) -> Error {
    Error::Usage(format!("{output} is being read; write under another name"))
}

/// Returns the end of a chain of links that leads to no existing file.
fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    let mut end = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&end) {
            Ok(next) => end = parent(&end).join(next),
            Err(_) => return Ok(end),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}
