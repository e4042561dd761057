//! The other files that contain values of an ONNX model's tensors
//! (docs/formats/onnx.md 4). A file that was packed is read inside its packed file.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use zstn_core::catalog::{FileCatalog, FileKind, has_extension};
use zstn_core::model::Model;

use super::options::MAX_OPEN_FILES;
use super::original::{CACHE_BYTES, Restored};
use crate::source::parallel::{self, FILES_AT_ONCE};
use crate::source::{ClosedFile, HttpOptions, Location, Source};
use crate::{Engine, Error, Result};

/// The place of a model, beside which its other files are, and the options of requests
/// for them.
#[derive(Clone, Default)]
pub(super) struct Beside {
    /// `None` if the model consists of several files, or was not opened by a location.
    pub location: Option<Location>,
    pub http: HttpOptions,
}

/// A file beside a model that contains values of its tensors.
#[derive(Clone)]
pub(super) struct ExternalFile {
    /// The number of the model's file.
    model: usize,
    /// The number in [`FileCatalog::external_files`] of the model's file.
    number: usize,
    /// The location of the file, or the reason why it has none.
    pub location: Result<Location, &'static str>,
    /// The location of the packed file that restores it.
    packed: Option<Location>,
}

/// An opened file.
pub(super) struct Found<S> {
    pub source: S,
    len_bytes: u64,
    /// The entries of the packed file that restores this one, if it is read there.
    packed: Option<Arc<Model>>,
}

/// Opened files with their catalogs.
pub(super) type FoundFiles<S> = Vec<(Found<S>, FileCatalog)>;

impl<S> Found<S> {
    /// Describes a file of `len_bytes` that is read as it is.
    pub fn plain(source: S, len_bytes: u64) -> Self {
        Self {
            source,
            len_bytes,
            packed: None,
        }
    }

    /// Returns the same file with another source for its bytes.
    #[cfg(feature = "async")]
    pub fn map<T>(self, source: impl FnOnce(S) -> T) -> Found<T> {
        Found {
            source: source(self.source),
            len_bytes: self.len_bytes,
            packed: self.packed,
        }
    }
}

/// The packed files that are read inside a model, with the numbers of the model's files
/// that they restore.
#[derive(Default)]
pub(super) struct PackedFiles(Vec<(usize, Arc<Model>)>);

impl PackedFiles {
    /// Adds opened files to the `sources` and the `catalogs` of a model.
    pub fn add<S>(
        found: FoundFiles<S>,
        sources: &mut Vec<S>,
        catalogs: &mut Vec<FileCatalog>,
    ) -> Self {
        let mut packed = Self::default();
        for (file, catalog) in found {
            let number = catalogs.len();
            packed.0.extend(file.packed.map(|model| (number, model)));
            sources.push(file.source);
            catalogs.push(catalog);
        }
        packed
    }

    /// Sets the stored lengths of the tensors of `model`, which has the files, to those in
    /// the packed files.
    pub fn set_stored_shares(&self, model: &mut Model) -> zstn_core::Result<()> {
        for (number, packed) in &self.0 {
            model.take_stored_shares(*number, packed)?;
        }
        Ok(())
    }
}

/// Opens the files that the models with these catalogs require, at the `locations`.
/// Returns them with their catalogs. Tensors in files that cannot be opened become
/// unreadable.
///
/// # Errors
/// A failed request.
pub(super) fn open(
    engine: &Engine,
    http: &HttpOptions,
    catalogs: &mut [FileCatalog],
    locations: &[Option<Location>],
) -> Result<FoundFiles<Box<dyn Source>>> {
    let files = find(catalogs, locations);
    let is_remote = |file: &ExternalFile| {
        let location = file.location.as_ref();
        location.is_ok_and(Location::is_remote)
    };
    let at_once = parallel::at_once(files.iter().map(is_remote), FILES_AT_ONCE);
    let opened = parallel::run(files.len(), at_once, |number| {
        Ok(files[number].open(engine, http, files.len()))
    });
    self::catalogs(catalogs, &files, opened?)
}

/// Returns the files that the models with these catalogs require. `locations` contains
/// the location of each model, if it was opened by one.
pub(super) fn find(catalogs: &[FileCatalog], locations: &[Option<Location>]) -> Vec<ExternalFile> {
    let models = catalogs.iter().zip(locations).enumerate();
    let files = models.flat_map(|(model, (catalog, location))| {
        let files = catalog.external_files().enumerate();
        files.map(move |(number, path)| {
            // These files have any name, such as `model.onnx_data`.
            let is_other = !has_extension(path, FileKind::Safetensors);
            let packed = is_other.then(|| format!("{path}.{}", FileKind::Zstn.extension()));
            ExternalFile {
                model,
                number,
                location: beside(location.as_ref(), path),
                packed: packed.and_then(|name| location.as_ref()?.sibling(&name)),
            }
        })
    });
    files.collect()
}

fn beside(model: Option<&Location>, path: &str) -> Result<Location, &'static str> {
    let model = model.filter(|location| !location.is_read_once());
    let Some(model) = model else {
        return Err("open the model by its path or address, so that its other files can be found");
    };
    let name = model.file_name().unwrap_or_default();
    let mut endings = [".zstn", ".z4dm"].iter();
    let restored = endings.find_map(|ending| name.strip_suffix(ending));
    if name == path || restored == Some(path) {
        return Err("this is the file of the model itself");
    }
    model.sibling(path).ok_or("its folder is unknown")
}

/// Opens a file that is read as it is, of a model with `count` other files.
fn open_plain(location: &Location, http: &HttpOptions, count: usize) -> Result<Box<dyn Source>> {
    match location {
        Location::Path(path) if count > MAX_OPEN_FILES => Ok(Box::new(ClosedFile::open(path)?)),
        location => location.open(http),
    }
}

impl ExternalFile {
    /// Opens the file, or the packed file in its place, of a model with `count` such files.
    fn open(
        &self,
        engine: &Engine,
        http: &HttpOptions,
        count: usize,
    ) -> Result<Found<Box<dyn Source>>> {
        let Ok(location) = &self.location else {
            return Err(without_location());
        };
        match open_plain(location, http, count) {
            Ok(source) => {
                let len_bytes = source.len_bytes();
                Ok(Found::plain(source, len_bytes))
            }
            Err(error) => self.open_packed(engine, http, count, error),
        }
    }

    /// Opens the packed file that restores this file, which was opened with `error`.
    ///
    /// # Errors
    /// `error`, unless the file is missing and a packed file is in its place; a packed file
    /// that is refused.
    pub fn open_packed(
        &self,
        engine: &Engine,
        http: &HttpOptions,
        count: usize,
        error: Error,
    ) -> Result<Found<Box<dyn Source>>> {
        let (Ok(location), Some(packed)) = (&self.location, &self.packed) else {
            return Err(error);
        };
        if !is_missing(location, &error) {
            return Err(error);
        }
        let source = match open_plain(packed, http, count) {
            Ok(source) => source,
            Err(other) if is_missing(packed, &other) => return Err(error),
            Err(other) => return Err(other),
        };
        let restored = Restored::open(engine, source, CACHE_BYTES / count.max(1) as u64)?;
        Ok(Found {
            len_bytes: restored.len_bytes(),
            packed: Some(restored.entries()),
            source: Box::new(restored),
        })
    }

    /// Returns the catalog of the file once it was opened, with its source, or the
    /// reason why it cannot be read: it does not exist, or cannot be opened on this
    /// machine, or its packed file is refused.
    ///
    /// # Errors
    /// A failed request.
    fn catalog<S>(
        &self,
        catalogs: &[FileCatalog],
        opened: Result<Found<S>>,
    ) -> Result<Result<(Found<S>, FileCatalog), String>> {
        let refusal = match (&self.location, opened) {
            (Err(reason), _) => (*reason).to_owned(),
            (Ok(_), Ok(found)) => {
                let catalog = catalogs[self.model].external(self.number, found.len_bytes);
                return Ok(Ok((found, catalog?)));
            }
            (Ok(_), Err(error)) if error.refusal().is_some() => error.to_string(),
            (Ok(location), Err(error)) if is_missing(location, &error) => reason(location, &error),
            (Ok(_), Err(error)) => return Err(error),
        };
        Ok(Err(refusal))
    }
}

/// Returns the catalogs of the `files` that were opened, with their sources. The tensors
/// in the others become unreadable.
///
/// # Errors
/// A failed request.
pub(super) fn catalogs<S>(
    catalogs: &mut [FileCatalog],
    files: &[ExternalFile],
    opened: Vec<Result<Found<S>>>,
) -> Result<FoundFiles<S>> {
    let mut all = Vec::new();
    let mut missing: BTreeMap<usize, Vec<(usize, String)>> = BTreeMap::new();
    for (file, opened) in files.iter().zip(opened) {
        match file.catalog(catalogs, opened)? {
            Ok(found) => all.push(found),
            Err(reason) => {
                let of_model = missing.entry(file.model).or_default();
                of_model.push((file.number, reason));
            }
        }
    }
    for (model, files) in missing {
        catalogs[model].refuse_external(&files)?;
    }
    Ok(all)
}

fn is_missing(location: &Location, error: &Error) -> bool {
    match error {
        Error::Http {
            status: Some(401 | 403 | 404 | 410),
            ..
        } => true,
        _ => !location.is_remote(),
    }
}

fn reason(location: &Location, error: &dyn Display) -> String {
    format!("{location} cannot be opened ({error}); put the file beside the model")
}

/// Returns the error in place of a source for a file without a location.
pub(super) fn without_location() -> Error {
    Error::Usage("the file has no location".into())
}
