//! The destination of a result.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::Output;
use crate::{Error, Result};

/// The destination of a result: a path or a writer.
///
/// At a path a file or a folder appears when it is complete, and nothing
/// otherwise. Files are replaced unless [`Sink::overwrite`] says no; folders,
/// which checkpoints in several files become, are never replaced unless they
/// are empty.
///
/// ```
/// # fn main() -> zstn::Result<()> {
/// # let header = br#"{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}"#;
/// # let len = (header.len() as u64).to_le_bytes();
/// # let model = [&len[..], header, &[1, 2, 3]].concat();
/// use zstn::{Engine, PackOptions, Sink, UnpackOptions};
///
/// let engine = Engine::default();
/// let (mut packed, mut restored) = (Vec::new(), Vec::new());
/// zstn::pack(&engine, model.clone(), Sink::writer(&mut packed), &PackOptions::default())?;
/// zstn::unpack(&engine, packed, Sink::writer(&mut restored), &UnpackOptions::default())?;
/// assert_eq!(restored, model);
/// # Ok(())
/// # }
/// ```
pub struct Sink<'a>(pub(crate) Kind<'a>);

pub(crate) enum Kind<'a> {
    Path { path: PathBuf, overwrite: bool },
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

    /// Writes a single file to `writer`. `&mut writer` works as well.
    ///
    /// [`pack`](crate::pack()) writes as it goes; if it fails, what the writer
    /// has received is the beginning of a file and worth nothing. What may still
    /// be revised, at most the largest packed tensor, waits in a temporary file.
    /// The other verbs write once all of the file has been made and checked.
    pub fn writer(writer: impl Write + Send + 'a) -> Self {
        Self(Kind::Writer(Box::new(writer)))
    }

    /// Sets whether an existing file is replaced, by default it is. Does not
    /// apply to a writer.
    #[must_use]
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        if let Kind::Path { overwrite: own, .. } = &mut self.0 {
            *own = overwrite;
        }
        self
    }

    /// Begins a single file.
    pub(crate) fn file(self) -> Result<Output<'a>> {
        match self.0 {
            Kind::Path { path, overwrite } => match overwrite {
                true => Output::create(&path),
                false => Output::create_new(&path),
            },
            Kind::Writer(writer) => Output::to_writer(writer),
        }
    }

    /// Returns the path of the folder that a result of several files goes to.
    pub(crate) fn folder(self) -> Result<PathBuf> {
        match self.0 {
            Kind::Path { path, .. } => Ok(path),
            Kind::Writer(_) => Err(needs_path()),
        }
    }
}

/// Returns the error for a writer that several files should go to.
pub(crate) fn needs_path() -> Error {
    Error::Usage(
        "the result is a folder of files and cannot be written to a stream; give it a path".into(),
    )
}

/// Converts what a path can be made of.
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
