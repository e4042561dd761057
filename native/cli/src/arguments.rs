//! Arguments shared by several verbs, with the same meaning everywhere.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use zstn::internals::Output;
use zstn::source::HttpOptions;
use zstn::{Engine, Location, Reader, ReaderOptions, Result, Sink, View};

use super::base_options::Bases;
use super::network::FullDownload;
use super::terminal::RawStdout;
use super::{progress, size, terminal};

/// Parses an input: a path, an address of a known scheme, or `-` for standard input.
/// Paths need not be Unicode.
pub fn location() -> impl TypedValueParser<Value = Location> {
    OsStringValueParser::new().map(|text| match text.to_str() {
        Some("-") => Location::Stdin,
        Some(url) if Location::is_url(url) || is_missing_address(url) => Location::url(url),
        _ if is_pipe(Path::new(&text)) => Location::Pipe(text.into()),
        _ => Location::from(text),
    })
}

/// Returns whether `text` looks like an address of an unknown scheme and is not the
/// path of a file. Opening it as an address gives an error that lists the known
/// schemes.
fn is_missing_address(text: &str) -> bool {
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    let is_scheme = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_scheme && !Path::new(text).exists()
}

/// Returns whether `path` is a named pipe, such as a shell's `<(…)`.
fn is_pipe(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        path.metadata().is_ok_and(|file| file.file_type().is_fifo())
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

/// Parses an output: a path, an address, or `-` for standard output.
pub fn destination() -> impl TypedValueParser<Value = Destination> {
    location().map(|location| match location {
        Location::Stdin => Destination::Stdout,
        Location::Path(path) | Location::Pipe(path) => Destination::Path(path),
        Location::Url(url) => Destination::Url(url),
    })
}

/// The destination of a result.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Destination {
    Stdout,
    Path(PathBuf),
    Url(String),
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("standard output"),
            Self::Path(path) => path.display().fmt(f),
            // The query may contain a signature, which is a secret.
            Self::Url(url) => zstn::display::address(url).fmt(f),
        }
    }
}

impl Destination {
    /// Returns the path, or the file name of an address, from whose extension the
    /// output format is derived; `None` for standard output.
    pub fn path(&self) -> Option<Cow<'_, Path>> {
        match self {
            Self::Stdout => None,
            Self::Path(path) => Some(Cow::Borrowed(path)),
            // The query of an address, such as a signature, is not part of the file
            // name.
            Self::Url(url) if self.is_folder() => Some(Path::new(url).into()),
            Self::Url(url) => {
                let name = Location::url(url).file_name().unwrap_or_default();
                Some(PathBuf::from(name).into())
            }
        }
    }

    /// Returns the origin of an http(s) address.
    pub fn origin(&self) -> Option<String> {
        match self {
            Self::Stdout | Self::Path(_) => None,
            Self::Url(url) => Location::url(url).origin(),
        }
    }

    /// Returns the destination `name` inside this folder.
    pub fn join(&self, name: &OsStr) -> Self {
        match self {
            Self::Stdout => Self::Stdout,
            Self::Path(folder) => Self::Path(folder.join(name)),
            Self::Url(url) => {
                let folder = Location::url(format!("{}/", url.trim_end_matches('/')));
                match folder.sibling(&name.to_string_lossy()) {
                    Some(Location::Url(url)) => Self::Url(url),
                    _ => Self::Url(url.clone()),
                }
            }
        }
    }

    /// Returns whether the destination is a folder: it exists as a folder, or it ends
    /// in a slash.
    pub fn is_folder(&self) -> bool {
        match self {
            Self::Stdout => false,
            Self::Url(url) => url.ends_with('/'),
            Self::Path(path) => {
                let text = path.as_os_str().to_string_lossy();
                text.ends_with(std::path::is_separator) || path.is_dir()
            }
        }
    }
}

/// Permission to replace existing files. No verb replaces a file without `--force`.
#[derive(Args, Clone, Copy)]
pub struct Overwrite {
    /// Replace existing files
    #[arg(short, long)]
    pub force: bool,
}

impl Overwrite {
    /// Returns the sink for a result that the library writes.
    pub fn sink(self, destination: &Destination) -> Result<Sink<'static>> {
        Ok(match destination {
            Destination::Stdout => {
                terminal::refuse_binary(self.force)?;
                Sink::writer(RawStdout)
            }
            Destination::Path(path) => Sink::path(path).overwrite(self.force),
            Destination::Url(url) => Sink::url(url).overwrite(self.force),
        })
    }

    /// Fails if all `destinations` are existing files that may not be replaced. The
    /// result will be written to one of them.
    pub fn check_any(self, destinations: &[&Destination]) -> Result<()> {
        let kept = |destination: &&Destination| match destination {
            Destination::Path(path) if !self.force && path.is_file() => Some(path.clone()),
            _ => None,
        };
        let kept: Option<Vec<PathBuf>> = destinations.iter().map(kept).collect();
        match kept.into_iter().flatten().next() {
            // The path exists, so this fails. If it has been removed meanwhile, nothing
            // is created.
            Some(path) => Output::create_new(&path).map(drop),
            None => Ok(()),
        }
    }

    /// Begins an output that the command line writes itself.
    pub fn begin(self, destination: &Destination, http: &HttpOptions) -> Result<Output<'static>> {
        match destination {
            Destination::Url(url) => Output::to_url(url, self.force, http),
            Destination::Stdout => {
                terminal::refuse_binary(self.force)?;
                Output::to_writer(RawStdout)
            }
            Destination::Path(path) if self.force => Output::create(path),
            Destination::Path(path) => Output::create_new(path),
        }
    }
}

/// The number of threads.
#[derive(Args, Clone, Copy)]
pub struct Threads {
    /// Number of threads, 0 for one per core
    #[arg(short = 'T', long, default_value_t = 0, value_name = "N", value_parser = threads, allow_negative_numbers = true)]
    threads: usize,
}

fn threads(text: &str) -> Result<usize, String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("a whole number is needed; 0 means one per core".into());
    }
    let number = text.parse().unwrap_or(match text.starts_with('-') {
        true => i128::MIN,
        false => i128::MAX,
    });
    Engine::check_threads(number).map_err(|error| error.to_string())
}

impl Threads {
    /// Starts the threads.
    pub fn engine(self) -> Result<Engine> {
        Engine::new(self.threads)
    }

    /// Starts the threads, or `default` threads if the number is 0.
    pub fn engine_or(self, default: usize) -> Result<Engine> {
        match self.threads {
            0 => Engine::new(default),
            _ => self.engine(),
        }
    }
}

/// The memory limit.
#[derive(Args, Clone, Copy)]
pub struct Memory {
    /// Approximate memory limit, like 512M; a single tensor may exceed it
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    memory: Option<u64>,
}

impl Memory {
    /// Passes the limit to `set`, if it is given.
    pub fn add_to<T>(self, options: T, set: impl FnOnce(T, u64) -> T) -> T {
        match self.memory {
            Some(bytes) => set(options, bytes),
            None => options,
        }
    }
}

/// The amount and the format of the output.
#[derive(Args, Clone, Copy)]
pub struct Report {
    /// Suppress messages
    #[arg(short, long)]
    pub quiet: bool,
    /// Log every request, every finished tensor and the reasons for decisions to
    /// standard error
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Print the result as JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

impl Report {
    /// Returns whether no progress is shown.
    pub fn is_silent(self) -> bool {
        self.quiet || self.json
    }

    /// Returns options that log requests if `--verbose` is given.
    pub fn watch(self, http: HttpOptions) -> HttpOptions {
        match self.verbose {
            true => progress::say_requests(http),
            false => http,
        }
    }
}

/// Selects whether weights that are stored as several tensors are combined when they
/// are read.
#[derive(Args, Clone, Copy)]
pub struct Stored {
    /// Read tensors as they are stored, even if config.json specifies how to compute
    /// weights from them (compressed-tensors), and only the named one of several GGUF
    /// files
    #[arg(long)]
    stored: bool,
}

impl Stored {
    pub fn view(self) -> View {
        match self.stored {
            true => View::Stored,
            false => View::Dense,
        }
    }
}

/// Options for opening a model, for verbs that read single tensors.
#[derive(Args)]
pub struct Model {
    #[command(flatten)]
    bases: Bases,
    #[command(flatten)]
    stored: Stored,
    #[command(flatten)]
    full_download: FullDownload,
}

impl Model {
    /// Opens `input`, with its bases if it is a delta.
    pub fn open(
        &self,
        input: &Location,
        http: &HttpOptions,
        engine: Option<&Engine>,
    ) -> Result<Reader> {
        self.open_only(input, &[], http, engine)
    }

    /// Opens only the files of `input` that contain the tensors `names`, if an index
    /// lists them. Without names, opens all files.
    pub fn open_only(
        &self,
        input: &Location,
        names: &[&str],
        http: &HttpOptions,
        engine: Option<&Engine>,
    ) -> Result<Reader> {
        let mut options = self.options(http);
        if let Some(engine) = engine {
            options = options.engine(engine);
        }
        options = names
            .iter()
            .fold(options, |options, name| options.only(*name));
        self.bases
            .add_to(options, |o, base| o.base(base))
            .open(input)
    }

    /// Opens `input` with these `bases` in place of the given ones.
    pub fn open_with(
        &self,
        input: &Location,
        bases: &[Location],
        http: &HttpOptions,
    ) -> Result<Reader> {
        let bases = bases.iter();
        bases
            .fold(self.options(http), |options, base| options.base(base))
            .open(input)
    }

    /// Returns whether a base is given.
    pub fn has_bases(&self) -> bool {
        self.bases.is_some()
    }

    fn options(&self, http: &HttpOptions) -> ReaderOptions {
        Reader::options()
            .view(self.stored.view())
            .http(self.full_download.add_to(http.clone()))
    }
}
