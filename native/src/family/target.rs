//! The checkpoint that is packed, and the formats that its base may have.

use zstn_core::catalog::{FileCatalog, FileKind};
use zstn_core::model::Model;
use zstn_core::sketch::Sketch;

/// The checkpoint that is packed.
pub(super) struct Target {
    pub(super) sketch: Sketch,
    /// The names of its shards, like [`Member::shards`](super::members::Member::shards);
    /// `None` if the input is a file, and not an index or a folder.
    pub(super) shards: Option<Vec<String>>,
    /// The result of [`delta_format`].
    pub(super) format: Option<String>,
}

impl Target {
    /// Returns whether the target can be a delta from a checkpoint of this format.
    pub(super) fn takes(&self, format: Option<&str>) -> bool {
        match self.is_safetensors() {
            true => format == self.format.as_deref(),
            false => self.format.is_some() && format.is_some(),
        }
    }

    /// Returns the reason why a member is left out that the target does not take.
    pub(super) fn other_format(&self) -> &'static str {
        match (self.is_safetensors(), &self.format) {
            (true, _) => {
                "it has another format, and only safetensors can be the base of safetensors"
            }
            (false, Some(_)) => "it was packed as bytes, which have no tensors",
            (false, None) => "the input has no tensors that could be stored as differences",
        }
    }

    pub(super) fn is_safetensors(&self) -> bool {
        self.format.as_deref() == Some(FileKind::Safetensors.name())
    }
}

/// Returns the format that all files of a model have or restore. Returns `None` if they have
/// different formats, or if one of them was packed as bytes.
pub(super) fn delta_format(model: &Model) -> Option<&str> {
    let (first, others) = model.files().split_first()?;
    let format = first.delta_format()?;
    let is_same = |file: &FileCatalog| file.delta_format() == Some(format);
    others.iter().all(is_same).then_some(format)
}
