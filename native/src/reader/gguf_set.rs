//! Finds the files of a model in several GGUF files (docs/formats/gguf.md 6).

use zstn_core::catalog::FileCatalog;

use crate::shards::Shard;
use crate::source::Location;
use crate::{Error, Result};

/// Returns all files of the model, if the file with this `catalog`, which was opened at
/// `location`, is the first of several. The others are in the folder of `version`, the
/// location of the version that was opened. Returns none for any other file.
pub(super) fn files(
    location: &Location,
    version: Option<Location>,
    catalog: &FileCatalog,
) -> Vec<Shard> {
    let name = location.file_name().filter(|_| !location.is_read_once());
    let Some(name) = name else {
        return Vec::new();
    };
    let names = catalog.further_gguf_files(&name);
    if names.is_empty() {
        return Vec::new();
    }
    let first = version.unwrap_or_else(|| location.clone());
    let others = names.iter().filter_map(|name| Shard::beside(&first, name));
    let mut files: Vec<Shard> = others.collect();
    let first = Shard {
        name,
        location: first,
        tensors: Vec::new(),
    };
    files.insert(0, first);
    files
}

/// Checks that `files` belong together. `catalogs` are their catalogs.
///
/// # Errors
/// [`GgufSplit`](zstn_core::Rule::GgufSplit) for a file of another model, and for missing
/// tensors.
pub(super) fn check<'a>(
    files: &[Shard],
    catalogs: impl IntoIterator<Item = &'a FileCatalog>,
) -> Result<()> {
    let mut tensors = 0u64;
    let mut first = None;
    for (file, catalog) in files.iter().zip(catalogs) {
        first.get_or_insert((file, catalog));
        let own = catalog.check_gguf_part(&file.name);
        tensors = tensors.saturating_add(own.map_err(Error::place(file))?);
    }
    match first {
        Some((file, first)) => first.check_gguf_total(tensors).map_err(Error::place(file)),
        None => Ok(()),
    }
}
