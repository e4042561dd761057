//! Names of packed files and of the files that they restore
//! (docs/formats/zstn-virtual-header.md 1). A text with lone surrogates, which Python uses
//! for file names that are not UTF-8, is never the name of a model.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyString;
use zstn::internals::original_file;
use zstn::zstn_core::catalog::{self, FileKind, IndexName};

/// Returns whether a file with this name or path is a model that jobs pack, according to
/// its extension.
#[pyfunction]
pub fn is_model_name(name: &Bound<'_, PyString>) -> bool {
    name.to_str().is_ok_and(|name| {
        let is_safetensors = catalog::kind_of_name(name) == Some(FileKind::Safetensors);
        catalog::has_other_extension(name) || (is_safetensors && IndexName::parse(name).is_none())
    })
}

/// Returns the name of the packed form of a model file or of a shard index, and `None` for
/// other names.
#[pyfunction]
pub fn packed_name(name: &Bound<'_, PyString>) -> Option<String> {
    catalog::packed_name(name.to_str().ok()?)
}

/// Returns the name of the file that a packed file or index restores, and `None` for other
/// names.
#[pyfunction]
pub fn restored_name(name: &Bound<'_, PyString>) -> Option<String> {
    catalog::restored_name(name.to_str().ok()?)
}

/// Returns whether the local file at `path` is neither packed nor a safetensors file,
/// according to its first bytes.
#[pyfunction]
pub fn is_of_another_format(path: PathBuf) -> bool {
    original_file::is_of_another_format(&path)
}

/// Returns whether the local file at `path` is a model of another format than safetensors,
/// according to its name and its first bytes.
#[pyfunction]
pub fn is_other_model(path: PathBuf) -> bool {
    let name = path.to_str().unwrap_or_default();
    catalog::has_other_extension(name) && original_file::is_recognised(&path)
}
