//! Files and folders that appear only when they are complete.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::source::Map;
use crate::{Error, Result};
use unfinished::Unfinished;

mod folder;
mod staging;
mod unfinished;

pub use folder::OutputFolder;
pub(crate) use staging::Staging;
pub use unfinished::remove_unfinished;

/// A file in the making. It lies beside its final place under another name
/// until [`Output::finish`] renames it; dropped before, it is removed. Only a
/// killed process can leave the hidden `.part` file behind, unless it could
/// still call [`remove_unfinished`].
#[derive(Debug)]
pub struct Output {
    file: NamedTempFile,
    /// `None` is standard output.
    target: Option<PathBuf>,
    unfinished: Unfinished,
}

impl Output {
    /// Begins the file that is to be at `path`; `-` is standard output.
    pub fn create(path: &Path) -> Result<Self> {
        if path.as_os_str() == "-" {
            let file =
                NamedTempFile::new().map_err(|error| Error::io("make a temporary file", error))?;
            return Ok(Self {
                unfinished: Unfinished::new(file.path()),
                file,
                target: None,
            });
        }
        let name = path
            .file_name()
            .ok_or_else(|| Error::Usage(format!("{} is no file name", path.display())))?;
        let folder = parent(path);
        let mut builder = tempfile::Builder::new();
        let prefix = format!(".{}.", name.display());
        builder.prefix(&prefix).suffix(".part");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // What any new file gets; the user's umask still applies.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let file = builder
            .tempfile_in(folder)
            .map_err(|error| Error::io(format!("write into {}", folder.display()), error))?;
        Ok(Self {
            unfinished: Unfinished::new(file.path()),
            file,
            target: Some(path.into()),
        })
    }

    /// Begins a file that is gone when it is dropped, which no one sees.
    pub fn temporary() -> Result<Self> {
        Self::create(Path::new("-"))
    }

    /// Appends at the current position.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all(bytes)
            .map_err(|error| Error::io(format!("write {}", self.name()), error))
    }

    /// Appends a part of a file without keeping it in memory.
    pub fn write_pieces(&mut self, map: &Map, range: Range<usize>) -> Result<()> {
        map.pieces(range).try_for_each(|piece| self.write(piece))
    }

    /// Writes at `offset_bytes`; threads may do so side by side.
    pub fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> Result<()> {
        write_all_at(self.file.as_file(), bytes, offset_bytes)
            .map_err(|error| Error::io(format!("write {}", self.name()), error))
    }

    /// Moves the position of [`Output::write`], from the start of the file.
    pub fn seek(&mut self, offset_bytes: u64) -> Result<()> {
        self.file
            .seek(io::SeekFrom::Start(offset_bytes))
            .map(|_| ())
            .map_err(|error| Error::io(format!("write {}", self.name()), error))
    }

    /// Cuts or extends the file.
    pub fn set_len(&self, len_bytes: u64) -> Result<()> {
        self.file
            .as_file()
            .set_len(len_bytes)
            .map_err(|error| Error::io(format!("make room for {}", self.name()), error))
    }

    /// What has been written so far.
    pub fn map(&self) -> Result<Map> {
        Map::new(self.name(), self.file.as_file())
    }

    /// Makes the file durable and gives it its name.
    pub fn finish(self) -> Result<()> {
        let name = self.name();
        let fail = |error| Error::io(format!("complete {name}"), error);
        let Some(target) = self.target else {
            let mut file = self.file.into_file();
            file.rewind().map_err(fail)?;
            io::copy(&mut file, &mut io::stdout().lock()).map_err(fail)?;
            return Ok(());
        };
        self.file.as_file().sync_all().map_err(fail)?;
        self.file.persist(&target).map_err(|e| fail(e.error))?;
        drop(self.unfinished);
        // Without this the new name itself could be lost with the power.
        #[cfg(unix)]
        File::open(parent(&target))
            .and_then(|folder| folder.sync_all())
            .map_err(fail)?;
        Ok(())
    }

    fn name(&self) -> String {
        match &self.target {
            Some(path) => path.display().to_string(),
            None => "standard output".into(),
        }
    }
}

/// The folder that `path` is in.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
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
