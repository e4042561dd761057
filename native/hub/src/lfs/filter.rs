//! The filter: an extension of git-lfs, which packs what git-lfs is about to
//! store, and unpacks what it has read.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use super::object::Workshop;
use super::repository::Repository;
use super::scratch::Scratch;
use super::stored_form::{HEAD_BYTES, StoredForm};
use zstn::display::Escaped;
use zstn::source::{Local, Source};
use zstn::{Engine, Error, Result, Sink, UnpackOptions, unpack};

/// The beginning of every pointer of git-lfs.
const POINTER: &[u8] = b"version https://git-lfs";

/// git-lfs takes no longer file for a pointer.
const MAX_POINTER_BYTES: u64 = 1024;

/// The log is emptied when it is longer than this.
const MAX_LOG_BYTES: u64 = 1 << 20;

/// The direction of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the working tree into the repository.
    Clean,
    /// From the repository into the working tree.
    Smudge,
}

impl Direction {
    fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Smudge => "smudge",
        }
    }
}

/// The filter of git-lfs's extension `zstn`.
///
/// Files that do not get smaller pass unchanged, and git-lfs then does not mention
/// the extension in their pointer: such files need no filter to be read, and
/// packed files that a person commits are not unpacked.
pub struct Filter {
    engine: Engine,
    memory_bytes: u64,
    extended: bool,
}

impl Filter {
    /// Makes a filter.
    #[must_use]
    pub fn new(engine: &Engine) -> Self {
        Self {
            engine: engine.clone(),
            memory_bytes: 1 << 30,
            extended: false,
        }
    }

    /// Sets the memory to stay within, roughly, in bytes, by default 1 GiB; a
    /// single tensor may always take what it needs.
    #[must_use]
    pub fn memory_bytes(mut self, memory_bytes: u64) -> Self {
        self.memory_bytes = memory_bytes;
        self
    }

    /// Sets whether extension frames are written where they are smaller
    /// ([`PackOptions::extended`](zstn::PackOptions::extended)), by default not.
    #[must_use]
    pub fn extended(mut self, extended: bool) -> Self {
        self.extended = extended;
        self
    }

    /// Filters the file called `name`. The same bytes always become the same.
    ///
    /// Errors are also appended to [`Repository::filter_log`], since git-lfs shows
    /// the exit status of a filter only.
    ///
    /// # Errors
    /// A pointer of git-lfs to be cleaned; packed bytes that are damaged; and I/O
    /// errors.
    pub fn run(
        &self,
        direction: Direction,
        name: &str,
        from: impl Read,
        to: impl Write + Send,
    ) -> Result<()> {
        let repository = Repository::find()?;
        let done = self.filter(repository.as_ref(), direction, name, from, to);
        if let (Err(error), Some(repository)) = (&done, &repository) {
            // Without a log the error still is one.
            let _ = log(repository, direction, name, error);
        }
        done
    }

    fn filter(
        &self,
        repository: Option<&Repository>,
        direction: Direction,
        name: &str,
        mut from: impl Read,
        to: impl Write + Send,
    ) -> Result<()> {
        let scratch = Scratch::create(repository)?;
        let (mut file, path) = scratch.file("input")?;
        let copied = io::copy(&mut from, &mut file).and_then(|_| file.rewind());
        copied.map_err(scratch.failed("copy standard input to"))?;
        let workshop = Workshop {
            engine: &self.engine,
            memory_bytes: self.memory_bytes,
            extended: self.extended,
            scratch: &scratch,
        };
        match direction {
            Direction::Clean => clean(&workshop, name, &file, &path, to),
            Direction::Smudge => self.smudge(name, &file, to),
        }
    }

    fn smudge(&self, name: &str, file: &File, to: impl Write + Send) -> Result<()> {
        let input = Local::of_file(name.into(), file)?;
        let head = input.head(HEAD_BYTES as u64)?;
        // The filter makes no envelopes.
        if !matches!(StoredForm::of(&head), Ok(StoredForm::Packed)) {
            return copy(file, to);
        }
        drop(head);
        let options = UnpackOptions::default().memory_bytes(self.memory_bytes);
        unpack(&self.engine, input, Sink::writer(to), &options).map(drop)
    }
}

fn clean(
    workshop: &Workshop<'_>,
    name: &str,
    file: &File,
    path: &Path,
    to: impl Write,
) -> Result<()> {
    let input = Local::of_file(name.into(), file)?;
    let is_short = input.len_bytes() <= MAX_POINTER_BYTES;
    if is_short && input.read_all()?.starts_with(POINTER) {
        return Err(Error::Usage(format!(
            "{name} is a pointer of git-lfs and not the file itself; adding it would store a \
             pointer to a pointer. Fetch the file first (git lfs pull), then add it"
        )));
    }
    match workshop.pack(path, None, &(), &())? {
        Some(packed) => copy(&packed.file, to),
        None => copy(file, to),
    }
}

fn copy(mut from: &File, mut to: impl Write) -> Result<()> {
    let copied = from
        .rewind()
        .and_then(|()| io::copy(&mut from, &mut to))
        .and_then(|_| to.flush());
    copied.map_err(|error| Error::io("write standard output", error))
}

/// Appends a line to the log.
fn log(repository: &Repository, direction: Direction, name: &str, error: &Error) -> Result<()> {
    let path = repository.filter_log()?;
    let is_long = path
        .metadata()
        .is_ok_and(|metadata| metadata.len() > MAX_LOG_BYTES);
    let mut options = File::options();
    let file = match is_long {
        true => options.write(true).truncate(true),
        false => options.append(true),
    };
    let line = format!(
        "{}: {}: {}\n",
        direction.name(),
        Escaped(name),
        Escaped(error)
    );
    file.create(true)
        .open(&path)
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .map_err(Error::file("write", &path))
}
