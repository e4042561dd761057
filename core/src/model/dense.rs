//! Weights in the formats of compressed-tensors, made dense.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Tensor;
use super::assembly::Place;
use crate::catalog::Catalog;
pub use crate::container::compressed_tensors::Weight;
use crate::container::compressed_tensors::{Checkpoint, Config, Entry, Role, Stored};
use crate::{Error, ErrorKind, Result};

/// How weights are made of what is stored.
#[derive(Debug, Clone)]
pub struct Dense {
    checkpoint: Checkpoint,
    is_rotated: bool,
}

/// A tensor of the model, and where its first part is.
pub type Placed = (Place, Tensor);

impl Dense {
    /// From the text of `config.json`. `None` if it tells of no compression,
    /// or of a method unknown here.
    pub fn new(
        config: &[u8],
        files: &[Catalog],
        places: &BTreeMap<String, Place>,
    ) -> Result<Option<Self>> {
        let config = match Config::parse(config) {
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(None),
            config => config?,
        };
        let stored = places.iter().map(|(name, &(file, number))| {
            let tensor = &files[file].tensors()[number];
            Stored {
                name: name.clone(),
                dtype: tensor.dtype,
                shape: tensor.shape.clone(),
            }
        });
        let checkpoint = Checkpoint::new(&config, stored)?;
        let is_plain = |entry| matches!(entry, &Entry::Stored(_));
        let is_plain = checkpoint.entries().all(|(_, entry)| is_plain(entry));
        Ok((!is_plain).then(|| Self {
            is_rotated: config.is_rotated(),
            checkpoint,
        }))
    }

    /// Where the tensors are that hold shapes of weights.
    pub fn shape_places(&self, places: &BTreeMap<String, Place>) -> Vec<Place> {
        let weights = self
            .checkpoint
            .entries()
            .filter_map(|(_, entry)| match entry {
                Entry::Weight(weight) => shape_part(weight),
                _ => None,
            });
        weights.map(|part| places[part]).collect()
    }

    /// All tensors of the model, and those that cannot be had. `shape` gives
    /// the bytes of a tensor of [`Dense::shape_places`].
    pub fn tensors(
        &self,
        as_stored: impl Fn(Place) -> Tensor,
        shape: impl Fn(Place) -> Result<Vec<u8>>,
        places: &BTreeMap<String, Place>,
    ) -> Result<(Vec<Placed>, BTreeMap<String, Error>)> {
        let mut tensors = Vec::new();
        let mut refused = BTreeMap::new();
        for (name, entry) in self.checkpoint.entries() {
            let weight = match entry {
                Entry::Stored(_) => {
                    tensors.push((places[name], as_stored(places[name])));
                    continue;
                }
                Entry::Refused(error) => Err(error.clone()),
                Entry::Weight(weight) => tensor(weight, &as_stored, &shape, places),
            };
            match weight {
                Ok(placed) => tensors.push(placed),
                // A mistake of the caller, not of the file.
                Err(error) if error.kind() == ErrorKind::InvalidInput => return Err(error),
                Err(error) => {
                    refused.insert(name.into(), error);
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
    as_stored: impl Fn(Place) -> Tensor,
    shape: impl Fn(Place) -> Result<Vec<u8>>,
    places: &BTreeMap<String, Place>,
) -> Result<Placed> {
    let shape = match shape_part(weight) {
        None => weight.shape_from(&[])?,
        Some(part) => weight.shape_from(&shape(places[part])?)?,
    };
    let dense = Stored {
        name: weight.name().into(),
        dtype: weight.dtype(),
        shape,
    };
    let len_bytes = dense.len_bytes()?;
    let parts = weight.parts().iter().map(|part| places[&part.stored.name]);
    let parts: Vec<Place> = parts.collect();
    let first = parts.iter().min().copied().unwrap_or_default();
    let tensor = Tensor {
        name: dense.name,
        dtype: dense.dtype,
        shape: dense.shape,
        parts: parts
            .into_iter()
            .flat_map(|place| as_stored(place).parts)
            .collect(),
        base: None,
        shared_with: None,
        len_bytes,
        weight: Some(Box::new(weight.clone())),
    };
    Ok((first, tensor))
}

/// Name of the stored tensor that has to be read for the shape of `weight`.
fn shape_part(weight: &Weight) -> Option<&String> {
    if weight.shape().is_some() {
        return None;
    }
    let part = weight.parts().iter().find(|part| part.role == Role::Shape);
    part.map(|part| &part.stored.name)
}

/// Name of the format of a weight.
pub fn format(weight: &Weight) -> &'static str {
    weight.format().name()
}

/// The dense bytes of a weight from those of its parts.
pub fn decode(weight: &Weight, shape: &[u64], parts: &[&[u8]]) -> Result<Vec<u8>> {
    let dense = weight.decode(parts)?;
    if dense.shape != shape {
        return Err(Error::invalid_input(format!(
            "its shape is {:?} now, when the model was opened it was {shape:?}: the file was \
             changed",
            dense.shape
        ))
        .tensor(weight.name()));
    }
    Ok(dense.bytes)
}
