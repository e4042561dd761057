//! Arguments that several verbs have, with one meaning everywhere.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use zstn::source::HttpOptions;
use zstn::{Engine, Location, Output, Reader, Result, Sink, View};

use super::bases::Bases;
use super::network::FullDownload;
use super::stdout::RawStdout;
use super::{size, terminal, verbose};

/// Parses an input: a path, an address of a scheme that the library knows, or
/// `-` for standard input. Paths need not be Unicode.
pub fn location() -> impl TypedValueParser<Value = Location> {
    OsStringValueParser::new().map(|text| match text.to_str() {
        Some("-") => Location::Stdin,
        Some(url) if Location::is_url(url) || is_missing_address(url) => Location::url(url),
        _ if is_pipe(Path::new(&text)) => Location::Pipe(text.into()),
        _ => Location::from(text),
    })
}

/// Returns whether `text` looks like an address of an unknown scheme, and there
/// is no file of that path. Opening it as an address says which schemes there
/// are.
fn is_missing_address(text: &str) -> bool {
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    let is_scheme = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_scheme && !Path::new(text).exists()
}

/// Returns whether there is a named pipe at `path`, such as a shell's `<(…)`.
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
            Self::Stdout => f.write_str("-"),
            Self::Path(path) => path.display().fmt(f),
            // The query may be a signature, which is a secret.
            Self::Url(url) => zstn::display::address(url).fmt(f),
        }
    }
}

impl Destination {
    /// Returns the path, or that of the file in an address, whose end says what to
    /// make; `None` for standard output.
    pub fn path(&self) -> Option<Cow<'_, Path>> {
        match self {
            Self::Stdout => None,
            Self::Path(path) => Some(Cow::Borrowed(path)),
            // A query, such as a signature, is not part of the name.
            Self::Url(url) if self.is_folder() => Some(Path::new(url).into()),
            Self::Url(url) => {
                let name = Location::url(url).file_name().unwrap_or_default();
                Some(PathBuf::from(name).into())
            }
        }
    }

    /// Returns the origin of an address that is written to over HTTP.
    pub fn origin(&self) -> Option<String> {
        match self {
            Self::Stdout | Self::Path(_) => None,
            Self::Url(url) => Location::url(url).origin(),
        }
    }

    /// Returns the destination `name` in this folder.
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

    /// Returns whether this names a folder: one that exists, or with a slash at
    /// the end.
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

/// Permission to replace existing files, the same for all verbs: without
/// `--force` none is replaced.
#[derive(Args, Clone, Copy)]
pub struct Overwrite {
    /// Replace existing files
    #[arg(short, long)]
    pub force: bool,
}

impl Overwrite {
    /// Returns the sink for a result of the library.
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

    /// Refuses a result that may go to any of `destinations`, if all of them are files
    /// that may not be replaced.
    pub fn check_any(self, destinations: &[&Destination]) -> Result<()> {
        let kept = |destination: &&Destination| match destination {
            Destination::Path(path) if !self.force && path.is_file() => Some(path.clone()),
            _ => None,
        };
        let kept: Option<Vec<PathBuf>> = destinations.iter().map(kept).collect();
        match kept.into_iter().flatten().next() {
            // This says what exists, without leaving anything there.
            Some(path) => Output::create_new(&path).map(drop),
            None => Ok(()),
        }
    }

    /// Begins a file that is written by the command line itself.
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

/// The threads that work.
#[derive(Args, Clone, Copy)]
pub struct Threads {
    /// Threads, 0 for one per core
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
    /// Starts them.
    pub fn engine(self) -> Result<Engine> {
        Engine::new(self.threads)
    }
}

/// Memory to stay within.
#[derive(Args, Clone, Copy)]
pub struct Memory {
    /// Memory to stay within, like 512M; a single tensor may always take what
    /// it needs
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    memory: Option<u64>,
}

impl Memory {
    /// Sets it in some options, if it is given.
    pub fn add_to<T>(self, options: T, set: impl FnOnce(T, u64) -> T) -> T {
        match self.memory {
            Some(bytes) => set(options, bytes),
            None => options,
        }
    }
}

/// The amount and the form of what is printed.
#[derive(Args, Clone, Copy)]
pub struct Report {
    /// Suppress messages
    #[arg(short, long)]
    pub quiet: bool,
    /// Say every request, every tensor that is done, and why something was
    /// decided, on standard error
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Print the result as JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

impl Report {
    /// Returns whether there is nothing to show while working.
    pub fn is_silent(self) -> bool {
        self.quiet || self.json
    }

    /// Returns options by which requests are said, if that is wanted.
    pub fn watch(self, http: HttpOptions) -> HttpOptions {
        match self.verbose {
            true => verbose::say_requests(http),
            false => http,
        }
    }
}

/// The way in which weights that are stored in parts are read.
#[derive(Args, Clone, Copy)]
pub struct Stored {
    /// Read tensors as they are stored, even if config.json says how to make
    /// weights of them (compressed-tensors)
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

/// Options for opening a model, of the verbs that read single tensors.
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
    /// Opens `input`, with its base if it is a delta.
    pub fn open(
        &self,
        input: &Location,
        http: &HttpOptions,
        engine: Option<&Engine>,
    ) -> Result<Reader> {
        self.open_only(input, &[], http, engine)
    }

    /// Opens those files of `input` that hold the tensors called `names`, as far as an
    /// index says which those are; without names all files.
    pub fn open_only(
        &self,
        input: &Location,
        names: &[&str],
        http: &HttpOptions,
        engine: Option<&Engine>,
    ) -> Result<Reader> {
        let mut options = Reader::options()
            .view(self.stored.view())
            .http(self.full_download.add_to(http.clone()));
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
}
