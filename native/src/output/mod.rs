//! Files and folders that appear only when they are complete.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tempfile::NamedTempFile;

use crate::source::{Map, Source};
use crate::{Error, Result};
use hidden::{PART_SUFFIX, give_name, hidden_prefix, parent, without_path};
use target::Target;
use unfinished::Unfinished;

mod folder;
mod hidden;
pub(crate) mod sink;
mod staging;
mod target;
pub(crate) mod temporary;
mod unfinished;

pub(crate) use folder::OutputFolder;
pub use sink::Sink;
pub(crate) use staging::Staging;
pub(crate) use target::check_inputs;
pub use unfinished::remove_unfinished;

/// An output that is being written. A file is written under a hidden name in
/// its folder until [`Output::finish`] renames it; dropped before, it is
/// removed. Only a killed process can leave the hidden `.part` file behind,
/// unless it could still call [`remove_unfinished`].
///
/// A path that is a link means the file that the link leads to. A pipe or a
/// device, such as `/dev/null`, is never replaced: it is written to at the end,
/// and so is a writer.
pub struct Output<'a> {
    disk: Disk,
    target: Target,
    /// Receives the bytes in the end, instead of the target.
    writer: Option<Mutex<Box<dyn Write + Send + 'a>>>,
    /// The path as it was given, for messages.
    name: PathBuf,
    replace: bool,
}

/// The place of the bytes until the output is complete.
#[derive(Debug)]
enum Disk {
    /// In the folder of the target, under a hidden name.
    Hidden(NamedTempFile, Unfinished),
    /// In a file without a name, which the system removes even if the process
    /// is killed.
    Unnamed(File),
}

impl fmt::Debug for Output<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

impl<'a> Output<'a> {
    /// Begins the file at `path`, which replaces an existing file.
    ///
    /// # Errors
    /// A path that cannot become a file: a folder, a socket, a disk; and I/O errors.
    pub fn create(path: &Path) -> Result<Self> {
        Self::begin(path, Target::of(path)?, true)
    }

    /// Begins the file at `path`, where none may exist, now and when it is
    /// finished.
    ///
    /// # Errors
    /// [`Error::Exists`], and those of [`Output::create`].
    pub fn create_new(path: &Path) -> Result<Self> {
        let target = Target::of(path)?;
        match target.existing() {
            Some(_) => Err(Error::Exists { path: path.into() }),
            None => Self::begin(path, target, false),
        }
    }

    /// Begins an output that is copied to `writer` when it is finished. Until
    /// then the bytes are in a file without a name in the folder for temporary
    /// files (`TMPDIR`).
    ///
    /// # Errors
    /// I/O errors.
    pub fn to_writer(writer: impl Write + Send + 'a) -> Result<Self> {
        let mut output = Self::temporary()?;
        output.name = "the output".into();
        output.writer = Some(Mutex::new(Box::new(writer)));
        Ok(output)
    }

    /// Begins a file without a name in the folder for temporary files
    /// (`TMPDIR`). It is gone when it and its maps are dropped.
    pub(crate) fn temporary() -> Result<Self> {
        Self::begin(Path::new("temporary file"), Target::Nowhere, true)
    }

    fn begin(path: &Path, target: Target, replace: bool) -> Result<Self> {
        let disk = match &target {
            Target::File(target) => {
                let mut builder = tempfile::Builder::new();
                let prefix = hidden_prefix(path);
                builder.prefix(&prefix).suffix(PART_SUFFIX);
                #[cfg(unix)]
                {
                    use std::os::unix::fs::PermissionsExt;
                    // The mode of any new file; the user's umask still applies.
                    builder.permissions(std::fs::Permissions::from_mode(0o666));
                }
                let folder = parent(target);
                let made = Unfinished::create(|| builder.tempfile_in(folder), NamedTempFile::path);
                // The error itself would name the hidden file.
                let (unfinished, file) = made.map_err(|error| {
                    let action = format!("write into {}", folder.display());
                    Error::io(action, without_path(error))
                })?;
                Disk::Hidden(file, unfinished)
            }
            _ => Disk::Unnamed(temporary::create()?),
        };
        Ok(Self {
            disk,
            target,
            writer: None,
            name: path.into(),
            replace,
        })
    }

    /// Returns the path as it was given; `None` for a writer.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.writer.is_none().then(|| self.name.clone())
    }

    /// Refuses to take the place of a file that one of `inputs` is read from.
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub fn check_inputs(&self, inputs: &[&dyn Source]) -> Result<()> {
        self.target.check_inputs(inputs)
    }

    /// Appends at the current position.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file()
            .write_all(bytes)
            .map_err(|error| self.failed("write", error))
    }

    /// Appends a part of a file without keeping it in memory.
    pub(crate) fn write_pieces(&mut self, map: &Map, range: Range<usize>) -> Result<()> {
        map.pieces(range).try_for_each(|piece| self.write(piece))
    }

    /// Writes at `offset_bytes`; several threads may do so at a time.
    pub(crate) fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> Result<()> {
        write_all_at(self.file(), bytes, offset_bytes).map_err(|error| self.failed("write", error))
    }

    /// Moves the position of [`Output::write`], from the start of the file.
    pub(crate) fn seek(&mut self, offset_bytes: u64) -> Result<()> {
        self.file()
            .seek(io::SeekFrom::Start(offset_bytes))
            .map(|_| ())
            .map_err(|error| self.failed("write", error))
    }

    /// Cuts or extends the file.
    pub(crate) fn set_len(&self, len_bytes: u64) -> Result<()> {
        self.file()
            .set_len(len_bytes)
            .map_err(|error| self.failed("make room for", error))
    }

    /// Maps the bytes that have been written so far.
    pub(crate) fn map(&self) -> Result<Map> {
        self.map_as(self.name())
    }

    /// Maps the bytes that have been written so far; messages call them `name`.
    pub(crate) fn map_as(&self, name: String) -> Result<Map> {
        Map::new(name, self.file())
    }

    /// Makes the file durable and gives it its name, or copies the bytes to the
    /// writer.
    ///
    /// # Errors
    /// [`Error::Exists`] if a file that may not be replaced has appeared, and
    /// I/O errors.
    pub fn finish(self) -> Result<()> {
        let name = self.name();
        let fail = |error| Error::io(format!("complete {name}"), error);
        if let (Disk::Unnamed(file), Some(writer)) = (&self.disk, self.writer) {
            let writer = writer.into_inner().unwrap_or_else(PoisonError::into_inner);
            return copy(file, writer).map_err(fail);
        }
        let (file, unfinished, target) = match (self.disk, &self.target) {
            (Disk::Hidden(file, unfinished), Target::File(path)) => (file, unfinished, path),
            (Disk::Unnamed(file), Target::Stdout) => {
                return copy(&file, io::stdout().lock()).map_err(fail);
            }
            (Disk::Unnamed(file), Target::Stream(path)) => {
                let stream = OpenOptions::new().write(true).open(path);
                return copy(&file, stream.map_err(fail)?).map_err(fail);
            }
            _ => return Ok(()),
        };
        file.as_file().sync_all().map_err(fail)?;
        let renamed = unfinished.publish(|| give_name(file, target, self.replace));
        renamed.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => Error::Exists {
                path: self.name.clone(),
            },
            _ => fail(error),
        })?;
        // Without this the new name itself could be lost with the power.
        #[cfg(unix)]
        File::open(parent(target))
            .and_then(|folder| folder.sync_all())
            .map_err(fail)?;
        Ok(())
    }

    fn file(&self) -> &File {
        match &self.disk {
            Disk::Hidden(file, _) => file.as_file(),
            Disk::Unnamed(file) => file,
        }
    }

    fn failed(&self, action: &str, error: io::Error) -> Error {
        match &self.disk {
            Disk::Hidden(..) => Error::io(format!("{action} {}", self.name()), error),
            Disk::Unnamed(_) => temporary::failed(action)(error),
        }
    }

    fn name(&self) -> String {
        match &self.target {
            Target::Stdout => "standard output".into(),
            _ => self.name.display().to_string(),
        }
    }
}

fn copy(mut file: &File, mut stream: impl Write) -> io::Result<()> {
    file.rewind()?;
    io::copy(&mut file, &mut stream)?;
    stream.flush()
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
