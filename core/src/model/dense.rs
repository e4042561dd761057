//! Decoding of weights in the formats of compressed-tensors to dense tensors.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{TensorInfo, TensorLocation};
use crate::catalog::{FileCatalog, Refusals};
pub use crate::container::foreign::compressed_tensors::Weight;
use crate::container::foreign::compressed_tensors::{
    Checkpoint, CheckpointEntry, Config, Role, TensorSpec,
};
use crate::{Error, ErrorKind, Result};

/// The mapping from stored tensors to the weights of the model.
#[derive(Debug, Clone)]
pub struct Dense {
    checkpoint: Checkpoint,
    is_rotated: bool,
}

/// A tensor of the model, with the location of its first part.
pub type Located = (TensorLocation, TensorInfo);

impl Dense {
    /// Parses the text of `config.json` and matches it with the stored tensors.
    /// Returns `None` if it describes no compression or an unknown method.
    pub fn new(
        config: &[u8],
        files: &[FileCatalog],
        locations: &BTreeMap<String, TensorLocation>,
    ) -> Result<Option<Self>> {
        let config = match Config::parse(config) {
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(None),
            config => config?,
        };
        let stored = locations.iter().map(|(name, &(file, number))| {
            let tensor = &files[file].tensors()[number];
            TensorSpec {
                name: name.clone(),
                dtype: tensor.dtype,
                shape: tensor.shape.clone(),
            }
        });
        let checkpoint = Checkpoint::new(&config, stored)?;
        let is_plain = |entry| matches!(entry, &CheckpointEntry::Stored(_));
        let is_plain = checkpoint.entries().all(|(_, entry)| is_plain(entry));
        Ok((!is_plain).then(|| Self {
            is_rotated: config.is_rotated(),
            checkpoint,
        }))
    }

    /// Returns the locations of the tensors that store shapes of weights.
    pub(crate) fn shape_locations(
        &self,
        locations: &BTreeMap<String, TensorLocation>,
    ) -> Vec<TensorLocation> {
        let weights = self
            .checkpoint
            .entries()
            .filter_map(|(_, entry)| match entry {
                CheckpointEntry::Weight(weight) => shape_part(weight),
                _ => None,
            });
        weights.map(|part| locations[part]).collect()
    }

    /// Returns all tensors of the model, and the ones that cannot be read.
    /// `shape` returns the bytes of a tensor listed by
    /// [`Dense::shape_locations`].
    pub fn tensors(
        &self,
        as_stored: impl Fn(TensorLocation) -> TensorInfo,
        shape: impl Fn(TensorLocation) -> Result<Vec<u8>>,
        locations: &BTreeMap<String, TensorLocation>,
    ) -> Result<(Vec<Located>, Refusals)> {
        let mut tensors = Vec::new();
        let mut refused = Vec::new();
        for (name, entry) in self.checkpoint.entries() {
            let weight = match entry {
                CheckpointEntry::Stored(_) => {
                    tensors.push((locations[name], as_stored(locations[name])));
                    continue;
                }
                CheckpointEntry::Refused(error) => Err(error.clone()),
                CheckpointEntry::Weight(weight) => tensor(weight, &as_stored, &shape, locations),
            };
            match weight {
                Ok(located) => tensors.push(located),
                // Invalid input is the caller's mistake, not a defect of the
                // file.
                Err(error) if error.kind() == ErrorKind::InvalidInput => return Err(error),
                Err(error) => {
                    refused.push((name.into(), error));
                }
            }
        }
        Ok((tensors, refused))
    }

    pub fn is_rotated(&self) -> bool {
        self.is_rotated
    }
}

fn tensor(
    weight: &Weight,
    as_stored: impl Fn(TensorLocation) -> TensorInfo,
    shape: impl Fn(TensorLocation) -> Result<Vec<u8>>,
    locations: &BTreeMap<String, TensorLocation>,
) -> Result<Located> {
    let shape = match shape_part(weight) {
        None => weight.shape_from(&[])?,
        Some(part) => weight.shape_from(&shape(locations[part])?)?,
    };
    let dense = TensorSpec {
        name: weight.name().into(),
        dtype: weight.dtype(),
        shape,
    };
    let len_bytes = dense.len_bytes()?;
    let parts = weight
        .parts()
        .iter()
        .map(|part| locations[&part.stored.name]);
    let parts: Vec<TensorLocation> = parts.collect();
    let first = parts.iter().min().copied().unwrap_or_default();
    let stored: Vec<TensorInfo> = parts.into_iter().map(as_stored).collect();
    let lens = stored.iter().map(TensorInfo::len_bytes);
    let quantised_len_bytes = lens.fold(0, u64::saturating_add);
    let tensor = TensorInfo {
        name: dense.name,
        dtype: dense.dtype,
        shape: dense.shape,
        parts: stored.into_iter().flat_map(|part| part.parts).collect(),
        base: None,
        alias_of: None,
        len_bytes,
        weight: Some(Box::new(weight.clone())),
        #[cfg(feature = "gguf")]
        block_type: None,
        quantised_len_bytes: Some(quantised_len_bytes),
        #[cfg(feature = "virtual-headers")]
        stored_share_bytes: None,
        #[cfg(feature = "virtual-headers")]
        record_base: None,
    };
    Ok((first, tensor))
}

/// Returns the name of the stored tensor that contains the shape of `weight`,
/// if the shape is only known once that tensor has been read.
fn shape_part(weight: &Weight) -> Option<&String> {
    if weight.shape().is_some() {
        return None;
    }
    let part = weight.parts().iter().find(|part| part.role == Role::Shape);
    part.map(|part| &part.stored.name)
}

/// Returns the name of the weight's format.
pub fn format(weight: &Weight) -> &'static str {
    weight.format().name()
}

/// Decodes a weight to its dense bytes, from the decoded bytes of its parts.
pub fn decode(weight: &Weight, shape: &[u64], parts: &[&[u8]]) -> Result<Vec<u8>> {
    let dense = weight.decode(parts)?;
    if dense.shape != shape {
        return Err(Error::invalid_input(format!(
            "its shape is {:?}, but was {shape:?} when the model was opened: the file was changed",
            dense.shape
        ))
        .tensor(weight.name()));
    }
    Ok(dense.bytes)
}
