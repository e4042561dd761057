//! Writes files and folders that appear only when they are complete.

use std::fmt;
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::report::Uploaded;
use crate::source::{HttpOptions, Local, Source, is_same};
use crate::{Error, Progress, Result, display};
use backing::Backing;
use cleanup::check_running;
use stream::{Pending, Receiver};
use target::Target;
use temporary::{give_name, parent};
use writeback::EarlyWriteback;

mod backing;
mod cleanup;
mod fallbacks;
mod folder;
mod permissions;
mod remote;
pub(crate) mod sink;
mod staging;
mod stream;
mod target;
pub mod temporary;
mod writeback;

pub(crate) use folder::{FolderPlace, OutputFolder};
pub(crate) use permissions::Mode;
pub(crate) use remote::Publication;
pub use sink::Sink;
pub use staging::Staging;
pub(crate) use staging::check_file;
pub(crate) use target::{being_read, check_inputs};

pub(crate) use cleanup::shown;
pub use cleanup::{remove_unfinished, remove_unfinished_of};
pub use fallbacks::on_warning;

/// An output that is being written. A file is written under a hidden name in its folder
/// until [`Output::finish`] renames it; if the output is dropped earlier, the file is
/// removed. A killed process can leave the hidden `.part` file behind, unless it could
/// still call [`remove_unfinished`]; the next run that writes into the same folder
/// removes it.
///
/// If the path is a link, the output replaces the file that the link leads to. A pipe
/// or a device, such as `/dev/null` (`NUL` on Windows), is never replaced but written
/// to. Pipes, devices and writers receive bytes as soon as they are final.
pub struct Output<'a> {
    backing: Backing<'a>,
    /// The path as the caller gave it; `None` for a writer.
    path: Option<PathBuf>,
    /// The name of the output in messages.
    name: String,
    replace: bool,
    mode: Mode,
    early: EarlyWriteback,
}

impl fmt::Debug for Output<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<'a> Output<'a> {
    /// Begins the file at `path`, which replaces an existing file.
    ///
    /// # Errors
    /// A path that cannot become a file, such as a folder, a socket or a disk; I/O
    /// errors.
    pub fn create(path: &Path) -> Result<Self> {
        Self::begin(path, Target::of(path)?, true)
    }

    /// Begins the file at `path`. No file may exist there, neither at this call nor
    /// when the output is finished.
    ///
    /// # Errors
    /// [`Error::Exists`], and the errors of [`Output::create`].
    pub fn create_new(path: &Path) -> Result<Self> {
        let target = Target::of(path)?;
        match target.existing() {
            Some(_) => Err(Error::exists(path)),
            None => Self::begin(path, target, false),
        }
    }

    /// Begins an output that sends its bytes to `writer` as they become final. The
    /// bytes that may still be revised, at most the largest tensor in its packed form,
    /// are in an unnamed file in the folder for temporary files (`TMPDIR`).
    ///
    /// # Errors
    /// I/O errors.
    pub fn to_writer(writer: impl Write + Send + 'a) -> Result<Self> {
        let name = "the output".to_owned();
        Ok(Self {
            backing: Backing::Pending(Pending::new(
                name.clone(),
                Receiver::Writer(Box::new(writer)),
            )?),
            path: None,
            name,
            replace: true,
            mode: Mode::default(),
            early: EarlyWriteback::default(),
        })
    }

    /// Begins the file at an address; see [`Sink::url`](crate::Sink::url). If `replace`
    /// is true, an existing file is replaced.
    ///
    /// # Errors
    /// [`Error::Exists`]; an address that cannot be written to, or not with these
    /// credentials; I/O errors.
    pub fn to_url(url: &str, replace: bool, http: &HttpOptions) -> Result<Self> {
        let name = display::address(url).into_owned();
        check_running().map_err(|error| Error::io(format!("write {name}"), error))?;
        Ok(Self {
            backing: Backing::Pending(Pending::new(
                name.clone(),
                remote::receiver(url, replace, http)?,
            )?),
            path: Some(name.clone().into()),
            name,
            replace,
            mode: Mode::default(),
            early: EarlyWriteback::default(),
        })
    }

    /// Begins an unnamed file in the folder for temporary files (`TMPDIR`). The system
    /// removes it when the output and all of its readers are dropped.
    pub(crate) fn temporary() -> Result<Self> {
        Ok(Self {
            backing: Backing::Unnamed(temporary::create()?),
            path: None,
            name: "temporary file".into(),
            replace: true,
            mode: Mode::default(),
            early: EarlyWriteback::default(),
        })
    }

    fn begin(path: &Path, target: Target, replace: bool) -> Result<Self> {
        let name = match &target {
            Target::Stdout => "standard output".into(),
            _ => shown(path).display().to_string(),
        };
        let receiver = match target {
            Target::File(target) => {
                return Ok(Self {
                    backing: Backing::hidden(path, target)?,
                    path: Some(path.into()),
                    name,
                    replace,
                    mode: Mode::default(),
                    early: EarlyWriteback::default(),
                });
            }
            Target::Stdout => Receiver::Stdout,
            Target::Stream(path) => Receiver::Stream(path, None),
        };
        Ok(Self {
            backing: Backing::Pending(Pending::new(name.clone(), receiver)?),
            path: Some(path.into()),
            name,
            replace,
            mode: Mode::default(),
            early: EarlyWriteback::default(),
        })
    }

    /// Returns the path as the caller gave it, or the address as messages show it;
    /// `None` for a writer.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.path.clone()
    }

    /// Refuses to replace a file that one of `inputs` is read from. The output will
    /// have the permissions of the first input, restricted to the permissions that all
    /// other inputs allow.
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub fn check_inputs(&self, inputs: &[&dyn Source]) -> Result<()> {
        for input in inputs {
            self.mode.add(input.file_ids());
        }
        match &self.backing {
            Backing::Hidden { target, .. } => check_inputs(target, inputs.iter().copied()),
            _ => match inputs.iter().any(|input| is_same(input.name(), &self.name)) {
                true => Err(being_read(&self.name)),
                false => Ok(()),
            },
        }
    }

    /// Gives the output the permissions of `input`, whose file it may replace.
    pub(crate) fn like(&self, input: &Local) {
        self.mode.add(input.file_ids());
    }

    /// Announces the greatest length that the output can have, before any of its bytes
    /// are final. Longer uploads are sent in longer parts.
    #[doc(hidden)]
    pub fn expect(&mut self, len_bytes: u64) {
        if let Backing::Pending(pending) = &mut self.backing {
            pending.expect(len_bytes);
        }
    }

    /// Appends bytes at the current position. A writer receives them once they are
    /// final.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.backing
            .file()
            .write_all(bytes)
            .map_err(|error| self.backing.failed("write", &self.name, error))?;
        if let Backing::Hidden { file, .. } = &self.backing {
            self.early.appended(file.as_file(), bytes.len() as u64);
        }
        Ok(())
    }

    /// Appends final bytes, and makes all bytes before them final. A writer receives
    /// all of them immediately; a web server receives them when the output is
    /// completed.
    pub(crate) fn write_final(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.backing {
            Backing::Pending(pending) => pending.write_final(bytes),
            _ => self.write(bytes),
        }
    }

    /// Returns whether final bytes are passed on before the output is complete.
    pub(crate) fn takes_early(&self) -> bool {
        matches!(&self.backing, Backing::Pending(pending) if pending.hands_over())
    }

    /// Appends all bytes that `from` reads; they are final.
    #[doc(hidden)]
    pub fn copy(&mut self, from: &mut dyn Read) -> Result<()> {
        let mut piece = vec![0; 1 << 20];
        loop {
            match from.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(len) => self.write_final(&piece[..len])?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(Error::io(format!("read what becomes {}", self.name), error));
                }
            }
        }
    }

    /// Makes all written bytes final: they will not be read, moved or written again.
    pub(crate) fn settle(&mut self) -> Result<()> {
        match &mut self.backing {
            Backing::Pending(pending) => pending.settle(),
            _ => Ok(()),
        }
    }

    /// Keeps all bytes revisable, even those written as final, until [`Output::revise`]
    /// or the end. If the output is a stream, the bytes wait in a temporary file. This
    /// method must be called before anything is written.
    pub(crate) fn hold(&mut self) {
        if let Backing::Pending(pending) = &mut self.backing {
            pending.hold();
        }
    }

    /// Overwrites the byte at `offset_bytes` of an output after [`Output::hold`], whose
    /// length so far is `len_bytes`, and makes all of these bytes final. A writer
    /// receives them immediately.
    pub(crate) fn revise(&mut self, byte: u8, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        self.write_at(&[byte], offset_bytes)?;
        // On some systems, writing at an offset moves the position.
        self.seek(len_bytes)?;
        match &mut self.backing {
            Backing::Pending(pending) => pending.release(),
            _ => Ok(()),
        }
    }

    /// Appends a range of a file without loading it into memory as a whole.
    pub(crate) fn write_part(&mut self, input: &Local, range: Range<u64>) -> Result<()> {
        input.try_feed(range, &mut |piece| self.write(piece))
    }

    /// Writes at `offset_bytes`; several threads may call this at the same time.
    pub(crate) fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> Result<()> {
        let written = self.backing.write_at(bytes, offset_bytes);
        written.map_err(|error| self.backing.failed("write", &self.name, error))?;
        if let Backing::Hidden { file, .. } = &self.backing {
            EarlyWriteback::written_at(file.as_file(), offset_bytes, bytes.len() as u64);
        }
        Ok(())
    }

    /// Moves the position of [`Output::write`] to `offset_bytes` from the start of the
    /// output.
    pub(crate) fn seek(&mut self, offset_bytes: u64) -> Result<()> {
        self.early.moved_to(offset_bytes);
        self.backing
            .file()
            .seek(io::SeekFrom::Start(self.backing.position(offset_bytes)))
            .map(|_| ())
            .map_err(|error| self.backing.failed("write", &self.name, error))
    }

    /// Extends the output to its final length. Nothing may have been written to it.
    pub(crate) fn reserve(&self, len_bytes: u64) -> Result<()> {
        let position = self.backing.position(len_bytes);
        let reserved = match fallbacks::allocate(self.backing.file(), position) {
            // Writing the last byte shows whether the file can have this length.
            Err(error) if fallbacks::is_lacking(&error) => match len_bytes.checked_sub(1) {
                Some(last) => self.backing.write_at(&[0], last),
                None => Ok(()),
            },
            other => other,
        };
        reserved.map_err(|error| self.backing.failed("reserve space for", &self.name, error))
    }

    /// Truncates the output. If the file system cannot truncate files, the remaining
    /// bytes are copied to another hidden file.
    pub(crate) fn cut(&mut self, len_bytes: u64) -> Result<()> {
        let position = self.backing.position(len_bytes);
        let mut cut = self.backing.file().set_len(position);
        if let Err(error) = &cut
            && fallbacks::is_lacking(error)
            && let (Backing::Hidden { target, .. }, Some(path)) = (&self.backing, &self.path)
        {
            let shorter = Backing::hidden(path, target.clone())?;
            let (mut from, mut to) = (self.backing.file(), shorter.file());
            let rewound = from.seek(io::SeekFrom::Start(0));
            cut = rewound.and_then(|_| io::copy(&mut from.take(position), &mut to).map(drop));
            if cut.is_ok() {
                self.backing = shorter;
            }
        }
        cut.map_err(|error| self.backing.failed("reserve space for", &self.name, error))
    }

    /// Returns a reader of the bytes written so far, none of which may be final. On
    /// some systems, reading moves the position of [`Output::write`].
    pub(crate) fn written(&self) -> Result<Local> {
        self.written_as(self.name.clone())
    }

    /// Like [`Output::written`], but messages call the bytes `name`.
    pub(crate) fn written_as(&self, name: String) -> Result<Local> {
        Local::of_file(name, self.backing.file())
    }

    /// Returns a reader of the bytes of `range`, which must not include final bytes.
    pub(crate) fn part(&self, range: Range<u64>) -> Result<Local> {
        let range = self.backing.position(range.start)..self.backing.position(range.end);
        Local::of_range(self.name.clone(), self.backing.file(), range)
    }

    /// Makes the file durable and gives it its name, or ends the stream.
    ///
    /// # Errors
    /// [`Error::Exists`] if a file has appeared that may not be replaced; I/O errors.
    pub fn finish(self) -> Result<()> {
        self.complete(&()).map(|_| ())
    }

    /// Completes the output like [`Output::finish`], unless `progress` ends the work
    /// right before the output would appear. Returns the counts of an upload to an
    /// object store.
    ///
    /// # Errors
    /// The errors of [`Output::finish`] and [`Progress::publishing`].
    pub fn complete(self, progress: &dyn Progress) -> Result<Option<Uploaded>> {
        let (file, unfinished, target) = match self.backing {
            Backing::Hidden {
                file,
                unfinished,
                target,
            } => (file, unfinished, target),
            Backing::Unnamed(_) => return Ok(None),
            Backing::Pending(pending) => {
                let running = check_running();
                running.map_err(|error| Error::io(format!("complete {}", self.name), error))?;
                return pending.complete(progress);
            }
        };
        let fail = |error| Error::io(format!("complete {}", self.name), error);
        let replaced = self.replace.then_some(target.as_path());
        self.mode.give(file.as_file(), replaced);
        fallbacks::sync(file.as_file()).map_err(fail)?;
        progress.publishing()?;
        let renamed = unfinished.publish(|| give_name(file, &target, self.replace));
        renamed.map_err(|error| match (error.kind(), self.path) {
            (ErrorKind::AlreadyExists, Some(path)) => Error::exists(path),
            _ => fail(error),
        })?;
        // Without this, a power failure could lose the new name.
        fallbacks::sync_names(parent(&target));
        Ok(None)
    }

    /// Abandons the output because of `error`, which it returns. An interrupted upload
    /// can be continued by another attempt; it is discarded if that would fail for the
    /// same reason.
    #[doc(hidden)]
    pub fn give_up(self, error: Error) -> Error {
        if let (Backing::Pending(pending), false) = (self.backing, error.is_external()) {
            pending.discard();
        }
        error
    }
}
