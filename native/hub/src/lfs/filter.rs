//! The filter, a git-lfs extension that packs files before git-lfs stores them and
//! unpacks them after git-lfs has read them.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use super::git_repository::{GitRepository, Scratch};
use super::object::ObjectPacker;
use super::store::{HEAD_BYTES, StoredFormat};
use zstn::display::Escaped;
use zstn::source::{Local, Source};
use zstn::{Engine, Error, Job, Result, Sink, UnpackOptions, unpack};

/// The first bytes of every git-lfs pointer.
const POINTER: &[u8] = b"version https://git-lfs";

/// Maximum length of a file that git-lfs recognises as a pointer.
const MAX_POINTER_BYTES: u64 = 1024;

/// The log is truncated once it is longer than this.
const MAX_LOG_BYTES: u64 = 1 << 20;

/// The direction of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Packs a file on its way from the working tree into the repository.
    Clean,
    /// Unpacks a file on its way from the repository into the working tree.
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

/// The filter of the git-lfs extension `zstn`.
///
/// A file that does not get smaller passes unchanged, and its pointer does not mention
/// the extension. Such a file can be read without the filter, and a packed file that a
/// user commits is not unpacked.
pub struct Filter {
    engine: Engine,
    memory_bytes: u64,
    extended: bool,
}

impl Filter {
    /// Creates a filter that decodes and encodes with `engine`.
    #[must_use]
    pub fn new(engine: &Engine) -> Self {
        Self {
            engine: engine.clone(),
            memory_bytes: 1 << 30,
            extended: false,
        }
    }

    /// Sets the approximate memory limit in bytes, 1 GiB by default. A single tensor
    /// may exceed it.
    #[must_use]
    pub fn memory_bytes(mut self, memory_bytes: u64) -> Self {
        self.memory_bytes = memory_bytes;
        self
    }

    /// Sets whether extension frames are written where they are smaller
    /// ([`PackOptions::extended`](zstn::PackOptions::extended)); off by default.
    #[must_use]
    pub fn extended(mut self, extended: bool) -> Self {
        self.extended = extended;
        self
    }

    /// Filters the file called `name`. Equal input gives equal output.
    ///
    /// Errors are also appended to [`GitRepository::filter_log`], because git-lfs shows
    /// only the exit status of a filter.
    ///
    /// # Errors
    /// If a git-lfs pointer is to be cleaned, or packed bytes are damaged; I/O errors.
    pub fn run(
        &self,
        direction: Direction,
        name: &str,
        from: impl Read,
        to: impl Write + Send,
    ) -> Result<()> {
        let repository = GitRepository::find()?;
        let done = self.filter(repository.as_ref(), direction, name, from, to);
        if let (Err(error), Some(repository)) = (&done, &repository) {
            // If the log cannot be written, the error is still returned.
            let _ = log(repository, direction, name, error);
        }
        done
    }

    fn filter(
        &self,
        repository: Option<&GitRepository>,
        direction: Direction,
        name: &str,
        mut from: impl Read,
        to: impl Write + Send,
    ) -> Result<()> {
        let scratch = Scratch::create(repository)?;
        let (mut file, path) = scratch.file("input")?;
        let copied = io::copy(&mut from, &mut file).and_then(|_| file.rewind());
        copied.map_err(scratch.failed("copy standard input to"))?;
        let packer = ObjectPacker {
            engine: &self.engine,
            memory_bytes: self.memory_bytes,
            extended: self.extended,
            scratch: &scratch,
        };
        match direction {
            Direction::Clean => clean(&packer, name, &file, &path, to),
            Direction::Smudge => self.smudge(&scratch, name, &file, to),
        }
    }

    fn smudge(&self, scratch: &Scratch, name: &str, file: &File, to: impl Write) -> Result<()> {
        let input = Local::of_file(name.into(), file)?;
        let head = input.head(HEAD_BYTES as u64)?;
        // The filter never writes envelopes, so an envelope is copied unchanged.
        if !matches!(StoredFormat::of(&head), Ok(StoredFormat::Packed)) {
            return copy(file, to);
        }
        drop(head);
        let job = Job::new()
            .engine(&self.engine)
            .memory_bytes(self.memory_bytes);
        // git gets a complete file that has been compared, or nothing.
        let (restored, _) = scratch.file("restored")?;
        let options = UnpackOptions::default();
        unpack(&job, input, Sink::writer(&restored), &options)?;
        copy(&restored, to)
    }
}

fn clean(
    packer: &ObjectPacker<'_>,
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
    match packer.pack(path, None, &(), &())? {
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

/// Appends an error to the log.
fn log(repository: &GitRepository, direction: Direction, name: &str, error: &Error) -> Result<()> {
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
