//! The other files that contain values of an ONNX model's tensors
//! (docs/formats/onnx.md 4).

use std::collections::BTreeMap;
use std::fmt::Display;

use zstn_core::catalog::FileCatalog;

use crate::source::Location;
use crate::{Error, Result};

/// A file beside a model that contains values of its tensors.
pub(super) struct ExternalFile {
    /// The number of the model's file.
    model: usize,
    /// The number in [`FileCatalog::external_files`] of the model's file.
    number: usize,
    /// The location of the file, or the reason why it has none.
    pub location: Result<Location, &'static str>,
}

/// Returns the files that the models with these catalogs require. `locations` contains
/// the location of each model, if it was opened by one.
pub(super) fn find(catalogs: &[FileCatalog], locations: &[Option<Location>]) -> Vec<ExternalFile> {
    let models = catalogs.iter().zip(locations).enumerate();
    let files = models.flat_map(|(model, (catalog, location))| {
        let files = catalog.external_files().enumerate();
        files.map(move |(number, path)| ExternalFile {
            model,
            number,
            location: beside(location.as_ref(), path),
        })
    });
    files.collect()
}

fn beside(model: Option<&Location>, path: &str) -> Result<Location, &'static str> {
    let model = model.filter(|location| !location.is_read_once());
    let Some(model) = model else {
        return Err("open the model by its path or address, so that its other files can be found");
    };
    if model.file_name().as_deref() == Some(path) {
        return Err("this is the file of the model itself");
    }
    model.sibling(path).ok_or("its folder is unknown")
}

impl ExternalFile {
    /// Returns the catalog of the file once it was opened, with its source, or the
    /// reason why it cannot be opened: it does not exist, or cannot be read on this
    /// machine.
    ///
    /// # Errors
    /// A failed request.
    fn catalog<S>(
        &self,
        catalogs: &[FileCatalog],
        opened: Result<(S, u64)>,
    ) -> Result<Result<(S, FileCatalog), String>> {
        let refusal = match (&self.location, opened) {
            (Err(reason), _) => (*reason).to_owned(),
            (Ok(_), Ok((source, len_bytes))) => {
                let catalog = catalogs[self.model].external(self.number, len_bytes);
                return Ok(Ok((source, catalog?)));
            }
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
    opened: Vec<Result<(S, u64)>>,
) -> Result<Vec<(S, FileCatalog)>> {
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
