//! From opened files to a [`Model`].

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::dense::Dense;
use super::{Model, Part, Tensor};
use crate::bytes;
use crate::catalog::Catalog;
use crate::container::part_name::may_be_part;
use crate::container::safetensors::ShardIndex;
use crate::engine::Engine;
use crate::limits::SHAPE_GAP_BYTES;
use crate::{Error, Result, Rule, order};

/// Whether names of tensors in `files` are such that `config.json` may have
/// something to say about them.
#[must_use]
pub fn wants_config(files: &[Catalog]) -> bool {
    let mut tensors = files.iter().flat_map(Catalog::tensors);
    tensors.any(|tensor| may_be_part(&tensor.name))
}

/// Where a stored tensor is: number of the file, number in its catalog.
pub type Place = (usize, usize);

/// A model being put together. Some weights keep their shape in a small
/// tensor beside them, which has to be read.
#[derive(Debug, Clone)]
pub struct Assembly {
    files: Vec<Catalog>,
    /// All stored tensors that belong to the model, by name.
    places: BTreeMap<String, Place>,
    dense: Option<Dense>,
    /// Stored bytes of the tensors that hold shapes.
    shapes: BTreeMap<Place, Option<Vec<u8>>>,
}

impl Assembly {
    /// Takes the files of a model, in the order of the shard index's
    /// ([`ShardIndex::files`]) if it has one, and the text of its
    /// `config.json`. Without that, or if it tells of no compression or of a
    /// method unknown here, tensors are as they are stored.
    /// A delta is always as it is stored.
    pub fn new(
        files: Vec<Catalog>,
        shards: Option<&ShardIndex>,
        config: Option<&[u8]>,
    ) -> Result<Self> {
        if files.is_empty() {
            return Err(Error::invalid_input("a model has at least one file"));
        }
        let places = places(&files, shards)?;
        let is_delta = files.iter().any(Catalog::needs_base);
        let dense = match config.filter(|_| !is_delta) {
            Some(config) => Dense::new(config, &files, &places)?,
            None => None,
        };
        let shapes = dense.iter().flat_map(|dense| dense.shape_places(&places));
        Ok(Self {
            shapes: order::map(shapes.map(|place| (place, None))),
            files,
            places,
            dense,
        })
    }

    /// Ranges still missing, each with the number of its file; empty once
    /// [`Assembly::finish`] can work. Small tensors that lie close together
    /// are in one range.
    #[must_use]
    pub fn needs(&self) -> Vec<(usize, Range<u64>)> {
        let wanted: Vec<(usize, Range<u64>)> = self
            .shapes
            .iter()
            .filter(|(_, bytes)| bytes.is_none())
            .map(|(place, _)| (place.0, self.stored(*place)))
            .collect();
        let mut joined: Vec<(usize, Range<u64>)> = Vec::new();
        for (file, range) in order::sorted(wanted, |(file, range)| (*file as u64, range.start)) {
            match joined.last_mut() {
                Some((last_file, last))
                    if *last_file == file
                        && range.start.saturating_sub(last.end) <= SHAPE_GAP_BYTES =>
                {
                    last.end = last.end.max(range.end);
                }
                _ => joined.push((file, range)),
            }
        }
        joined
    }

    /// Adds bytes of a range that [`Assembly::needs`] has named.
    pub fn supply(&mut self, file: usize, offset_bytes: u64, supplied: &[u8]) {
        let end = offset_bytes.saturating_add(supplied.len() as u64);
        for (&(of, number), known) in &mut self.shapes {
            let stored = self.files[of].tensors()[number].stored.clone();
            if of == file && stored.start >= offset_bytes && stored.end <= end {
                let range = stored.start - offset_bytes..stored.end - offset_bytes;
                *known = Some(bytes::part(supplied, range).to_vec());
            }
        }
    }

    /// The model. `engine` decodes shapes in packed files.
    pub fn finish<E: Engine>(mut self, engine: &E) -> Result<Model> {
        let shape = |place: Place| {
            let stored = self.shapes.get(&place).and_then(Option::as_ref);
            let stored = stored
                .ok_or_else(|| Error::invalid_input("bytes of the shapes are still missing"))?;
            let bytes = self.files[place.0].decode(engine, place.1, stored)?;
            Ok(bytes.into_owned())
        };
        let as_stored = |place| self.as_stored(place);
        let (tensors, refused) = match &self.dense {
            Some(dense) => dense.tensors(as_stored, shape, &self.places)?,
            None => {
                let places = self.places.values();
                let tensors = places.map(|&place| (place, as_stored(place)));
                (tensors.collect(), BTreeMap::new())
            }
        };
        // Of a million tensors what is not needed any longer counts.
        self.places.clear();
        let tensors = order::sorted(tensors, |((file, number), _)| {
            (*file as u64, *number as u64)
        });
        let mut stored = self.files.iter().flat_map(Catalog::tensors);
        let are_shared = stored.any(|tensor| tensor.shared_with.is_some());
        let places = tensors.iter().map(|(place, _)| *place);
        let owners = order::map(places.zip(0..).filter(|_| are_shared));
        let tensors: Vec<Tensor> = tensors
            .into_iter()
            .map(|((file, number), mut tensor)| {
                let owner = self.files[file].tensors()[number].shared_with;
                let owner = owner.filter(|_| tensor.weight.is_none());
                tensor.shared_with = owner.and_then(|owner| owners.get(&(file, owner)).copied());
                tensor
            })
            .collect();
        let names = tensors.iter().map(|tensor| tensor.name.clone());
        let mut metadata = BTreeMap::new();
        for file in self.files.iter().rev() {
            let own = file.metadata().iter();
            metadata.extend(own.map(|(key, value)| (key.clone(), value.clone())));
        }
        Ok(Model {
            by_name: order::map(names.zip(0..)),
            tensors,
            refused,
            metadata,
            is_rotated: self.dense.as_ref().is_some_and(Dense::is_rotated),
            is_dense: self.dense.is_some(),
            files: self.files,
        })
    }

    fn stored(&self, (file, number): Place) -> Range<u64> {
        self.files[file].tensors()[number].stored.clone()
    }

    fn part(&self, place: Place) -> Part {
        Part {
            file: place.0,
            number: place.1,
            stored: self.stored(place),
        }
    }

    fn as_stored(&self, place: Place) -> Tensor {
        let tensor = &self.files[place.0].tensors()[place.1];
        Tensor {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
            parts: [self.part(place)].into(),
            base: tensor.base,
            shared_with: None,
            len_bytes: tensor.len_bytes(),
            weight: None,
        }
    }
}

/// Which stored tensors belong to the model (docs/formats/sharded.md 2).
fn places(files: &[Catalog], shards: Option<&ShardIndex>) -> Result<BTreeMap<String, Place>> {
    let mut places = BTreeMap::new();
    for (tensor, file) in shards.into_iter().flat_map(ShardIndex::weights) {
        let number = files.get(file).and_then(|file| file.find(tensor).ok());
        let number = number.ok_or_else(|| {
            let name = shards.map_or("", |shards| &shards.files()[file]);
            Error::malformed(
                Rule::ShardTensorMissing,
                format!("the index says that the tensor is in `{name}`, where it is not"),
            )
            .tensor(tensor)
        })?;
        places.insert(tensor.into(), (file, number));
    }
    for (file, catalog) in files.iter().enumerate() {
        for (number, tensor) in catalog.tensors().iter().enumerate() {
            let entry = places.entry(tensor.name.clone());
            entry.or_insert((file, number));
        }
    }
    Ok(places)
}
