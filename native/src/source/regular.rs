//! Opens files that must be regular files.
//!
//! Opening a named pipe would wait for a writer, and a device may never end, so both
//! are refused before anything is read.

use std::fs::{File, FileType, OpenOptions};
use std::io;
use std::path::Path;

/// Opens the file at `path` for reading.
///
/// # Errors
/// I/O errors; an error that names the file type if the path is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    // Opening a device may have side effects.
    check(path.metadata()?.file_type())?;
    let mut options = OpenOptions::new();
    options.read(true);
    // The path may meanwhile have become a pipe; opening it must not wait for a writer.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, nonblocking());
    let file = options.open(path)?;
    check(file.metadata()?.file_type())?;
    Ok(file)
}

/// Reads the whole file at `path`.
///
/// # Errors
/// The errors of [`open`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut open(path)?, &mut bytes)?;
    Ok(bytes)
}

fn check(kind: FileType) -> io::Result<()> {
    match name(kind) {
        None => Ok(()),
        Some(kind) => Err(io::Error::other(format!("it is a {kind}, not a file"))),
    }
}

/// Returns the name of the file type, or `None` for a regular file.
pub(super) fn name(kind: FileType) -> Option<&'static str> {
    if kind.is_file() {
        return None;
    }
    if kind.is_dir() {
        return Some("folder");
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return Some("named pipe");
        }
        if kind.is_socket() {
            return Some("socket");
        }
    }
    Some("device")
}

/// Returns the flag that lets opening a pipe succeed without waiting for its other end.
#[cfg(unix)]
pub(super) fn nonblocking() -> i32 {
    rustix::fs::OFlags::NONBLOCK.bits().cast_signed()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_opened_and_none_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), b"bytes").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(at("pipe"))
            .status();
        assert!(made.unwrap().success());
        std::os::unix::fs::symlink("pipe", at("to-pipe")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        assert_eq!(read(&at("file")).unwrap(), b"bytes");
        assert_eq!(read(&at("link")).unwrap(), b"bytes");
        for (path, kind) in [
            (at("pipe"), "named pipe"),
            (at("to-pipe"), "named pipe"),
            (at("socket"), "socket"),
            (folder.path().into(), "folder"),
            ("/dev/zero".into(), "device"),
        ] {
            let error = read(&path).unwrap_err().to_string();
            assert_eq!(error, format!("it is a {kind}, not a file"));
        }
    }
}
