//! The destination of a result.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::{FolderPlace, Output};
use crate::source::HttpOptions;
use crate::{Error, Location, Result};

/// The destination of a result: a path, an address or a writer.
///
/// A file or a folder appears at its path only when it is complete. Existing files are
/// replaced unless [`Sink::overwrite`] is set to false; existing folders, to which the
/// results of sharded checkpoints are written, are never replaced unless they are
/// empty.
///
/// ```
/// # fn main() -> zstn::Result<()> {
/// # let header = br#"{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}"#;
/// # let len = (header.len() as u64).to_le_bytes();
/// # let model = [&len[..], header, &[1, 2, 3]].concat();
/// use zstn::{Job, PackOptions, Sink, UnpackOptions};
///
/// let job = Job::new();
/// let (mut packed, mut restored) = (Vec::new(), Vec::new());
/// zstn::pack(&job, model.clone(), Sink::writer(&mut packed), &PackOptions::default())?;
/// zstn::unpack(&job, packed, Sink::writer(&mut restored), &UnpackOptions::default())?;
/// assert_eq!(restored, model);
/// # Ok(())
/// # }
/// ```
pub struct Sink<'a>(pub(crate) Kind<'a>);

pub(crate) enum Kind<'a> {
    Path { path: PathBuf, overwrite: bool },
    Url { url: String, overwrite: bool },
    Writer(Box<dyn Write + Send + 'a>),
}

impl<'a> Sink<'a> {
    /// Writes a file, or a folder of files, at `path`.
    pub fn path(path: impl Into<PathBuf>) -> Self {
        Self(Kind::Path {
            path: path.into(),
            overwrite: true,
        })
    }

    /// Writes an object, or a folder of objects, at an address with the scheme `s3://`,
    /// `gs://`, `az://` or `memory://` (with the crate feature `store`); a file at an
    /// http(s) address, by one PUT request once the file is complete; or a local file
    /// or folder at a `file://` address.
    ///
    /// An object appears when it is complete; in a folder, the index is written last.
    /// Large objects are sent in parts; [`pack`](crate::pack()) and
    /// [`unpack`](crate::unpack()) send them while they work. Another call with the same input and options continues an interrupted
    /// upload: parts that are already in the store are not sent again. See
    /// docs/object-stores.md.
    pub fn url(url: impl Into<String>) -> Self {
        match Location::url(url) {
            Location::Url(url) => Self(Kind::Url {
                url,
                overwrite: true,
            }),
            Location::Path(path) => Self::path(path),
            Location::Pipe(_) | Location::Stdin => {
                unreachable!("an address is neither a pipe nor standard input")
            }
        }
    }

    /// Writes a single file to `writer`. `&mut writer` works as well.
    ///
    /// [`pack`](crate::pack()) writes while it works; if it fails, the writer has
    /// received a useless beginning of a file. The bytes that may still be revised, at
    /// most the largest packed tensor, wait in a temporary file (with
    /// [`PackOptions::extended`](crate::PackOptions::extended), all bytes up to the
    /// first extension frame).
    ///
    /// [`unpack`](crate::unpack()) writes while it works, too. Every tensor is compared
    /// with its digest before its bytes are written, and the SHA-256 of the whole file,
    /// before the last byte is. After an error, the writer has received an incomplete
    /// file, which must not be used. A delta whose tensors share bytes is written after
    /// the whole file has been restored, and so is a file that
    /// [`convert`](crate::convert()) makes.
    pub fn writer(writer: impl Write + Send + 'a) -> Self {
        Self(Kind::Writer(Box::new(writer)))
    }

    /// Sets whether an existing file is replaced; the default is true. This has no
    /// effect on a writer.
    #[must_use]
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        match &mut self.0 {
            Kind::Path { overwrite: own, .. } | Kind::Url { overwrite: own, .. } => {
                *own = overwrite;
            }
            Kind::Writer(_) => {}
        }
        self
    }

    /// Begins a single file.
    pub(crate) fn file(self, http: &HttpOptions) -> Result<Output<'a>> {
        match self.0 {
            Kind::Path { path, overwrite } => match overwrite {
                true => Output::create(&path),
                false => Output::create_new(&path),
            },
            Kind::Url { url, overwrite } => Output::to_url(&url, overwrite, http),
            Kind::Writer(writer) => Output::to_writer(writer),
        }
    }

    /// Returns the location of the output folder for a result of several files.
    pub(crate) fn folder(self) -> Result<FolderPlace> {
        match self.0 {
            Kind::Path { path, .. } => Ok(FolderPlace::Path(path)),
            Kind::Url { url, .. } => Ok(FolderPlace::Url(url)),
            Kind::Writer(_) => Err(needs_path()),
        }
    }
}

/// Returns the error for a result of several files whose sink is a writer.
pub(crate) fn needs_path() -> Error {
    Error::Usage(
        "the result is a folder of files and cannot be written to a stream; give it a path".into(),
    )
}

/// Implements conversions from types that represent a path.
macro_rules! from_path {
    ($($path:ty),*) => {$(
        impl From<$path> for Sink<'_> {
            fn from(path: $path) -> Self {
                Self::path(path)
            }
        }
    )*};
}

from_path!(&str, &String, String, &Path, PathBuf, &OsStr, OsString);

impl From<&PathBuf> for Sink<'_> {
    fn from(path: &PathBuf) -> Self {
        Self::path(path)
    }
}
