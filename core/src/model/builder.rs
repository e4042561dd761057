//! Builds a [`Model`] from opened files.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::dense::Dense;
use super::{Model, StoredPart, TensorInfo, TensorLocation, Verify};
use crate::catalog::{FileCatalog, Refusals, Refused};
use crate::container::foreign::may_be_part;
use crate::container::safetensors::ShardIndex;
use crate::engine::Engine;
use crate::limits::SHAPE_GAP_BYTES;
use crate::{Error, Result, Rule, bytes, sort};

/// The name under which a model refuses the tensors whose names it does not know.
#[cfg(feature = "virtual-headers")]
const UNLISTED: &str = "(tensors that are not listed)";

/// Returns whether some tensor in `files` has a name that suggests a part of a
/// compressed weight, in which case `config.json` has to be consulted.
#[must_use]
pub fn wants_config(files: &[FileCatalog]) -> bool {
    let mut tensors = files.iter().flat_map(FileCatalog::tensors);
    tensors.any(|tensor| may_be_part(&tensor.name))
}

/// Builds a model from opened files. Some weights store their shape in a small
/// tensor, whose bytes the caller has to supply first.
#[derive(Debug, Clone)]
pub struct ModelBuilder {
    files: Vec<FileCatalog>,
    /// The stored tensors that belong to the model, by name.
    locations: BTreeMap<String, TensorLocation>,
    /// The tensors that the index lists and no file has, with the reasons.
    missing: Refusals,
    dense: Option<Dense>,
    /// The bytes of the tensors that store shapes, once supplied.
    shapes: BTreeMap<TensorLocation, Option<Vec<u8>>>,
}

impl ModelBuilder {
    /// Starts a model from its files, in the order of the shard index
    /// ([`ShardIndex::files`]) if it has one, and the text of its
    /// `config.json`.
    ///
    /// The tensors remain as they are stored if there is no config, if the
    /// config describes no compression or an unknown method, or if the model is
    /// a delta.
    ///
    /// A tensor that the index assigns to a file without it cannot be read
    /// ([`Model::refused`]); all others can.
    pub fn new(
        files: Vec<FileCatalog>,
        shards: Option<&ShardIndex>,
        config: Option<&[u8]>,
    ) -> Result<Self> {
        if files.is_empty() {
            return Err(Error::invalid_input("a model needs at least one file"));
        }
        let (locations, missing) = locations(&files, shards);
        let is_delta = files.iter().any(FileCatalog::needs_base);
        let dense = match config.filter(|_| !is_delta) {
            Some(config) => Dense::new(config, &files, &locations)?,
            None => None,
        };
        let shapes = dense
            .iter()
            .flat_map(|dense| dense.shape_locations(&locations));
        Ok(Self {
            shapes: sort::map(shapes.map(|location| (location, None))),
            files,
            locations,
            missing,
            dense,
        })
    }

    /// Returns the ranges that are still missing, each with the number of its
    /// file; empty once [`ModelBuilder::finish`] can be called. Small tensors
    /// close to each other share a range.
    #[must_use]
    pub fn needs(&self) -> Vec<(usize, Range<u64>)> {
        let wanted: Vec<(usize, Range<u64>)> = self
            .shapes
            .iter()
            .filter(|(_, bytes)| bytes.is_none())
            .map(|(location, _)| (location.0, self.stored(*location)))
            .collect();
        let mut joined: Vec<(usize, Range<u64>)> = Vec::new();
        for (file, range) in sort::sorted(wanted, |(file, range)| (*file as u64, range.start)) {
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

    /// Adds the bytes of a range that [`ModelBuilder::needs`] has returned.
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

    /// Sets the checks that reading the tensors of ZSTN files includes; the
    /// default is [`Verify::Full`].
    #[must_use]
    pub fn verify(mut self, verify: Verify) -> Self {
        for file in &mut self.files {
            file.set_verify(verify);
        }
        self
    }

    /// Builds the model. `engine` decodes the shapes stored in packed files.
    pub fn finish<E: Engine>(mut self, engine: &E) -> Result<Model> {
        let shape = |location: TensorLocation| {
            let stored = self.shapes.get(&location).and_then(Option::as_ref);
            let stored = stored
                .ok_or_else(|| Error::invalid_input("bytes of the shapes are still missing"))?;
            let bytes = self.files[location.0].decode(engine, location.1, stored)?;
            Ok(bytes.into_owned())
        };
        let as_stored = |location| self.as_stored(location);
        let (tensors, refused) = match &self.dense {
            Some(dense) => dense.tensors(as_stored, shape, &self.locations)?,
            None => {
                let locations = self.locations.values();
                let tensors = locations.map(|&location| (location, as_stored(location)));
                (tensors.collect(), Vec::new())
            }
        };
        let mut refused: Refusals = refused;
        self.add_refused_by_files(&mut refused);
        refused.append(&mut self.missing);
        // In a model with a million tensors, this releases a considerable
        // amount of memory.
        self.locations.clear();
        let tensors = sort::sorted(tensors, |((file, number), _)| {
            (*file as u64, *number as u64)
        });
        let mut stored = self.files.iter().flat_map(FileCatalog::tensors);
        let are_aliased = stored.any(|tensor| tensor.alias_of.is_some());
        let locations = tensors.iter().map(|(location, _)| *location);
        let first_numbers = sort::map(locations.zip(0..).filter(|_| are_aliased));
        let tensors: Vec<TensorInfo> = tensors
            .into_iter()
            .map(|((file, number), mut tensor)| {
                let target = self.files[file].tensors()[number].alias_of;
                let target = target.filter(|_| tensor.weight.is_none());
                tensor.alias_of =
                    target.and_then(|target| first_numbers.get(&(file, target)).copied());
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
            by_name: sort::map(names.zip(0..)),
            tensors,
            refused: Refused::new(refused),
            metadata,
            is_rotated: self.dense.as_ref().is_some_and(Dense::is_rotated),
            is_dense: self.dense.is_some(),
            names_in_base: BTreeMap::new(),
            files: self.files,
        })
    }

    /// Adds the tensors that their files report as unreadable, unless another
    /// file has a readable tensor of the same name. Adds [`UNLISTED`] for a file that
    /// does not list all of its tensors.
    fn add_refused_by_files(&self, refused: &mut Refusals) {
        for file in &self.files {
            #[cfg(feature = "virtual-headers")]
            refused.extend(file.unlisted().map(|error| (UNLISTED.into(), error)));
            for (name, error) in file.refused().iter() {
                if !self.locations.contains_key(name) {
                    refused.push((name.into(), error.clone()));
                }
            }
        }
    }

    fn stored(&self, (file, number): TensorLocation) -> Range<u64> {
        self.files[file].tensors()[number].stored.clone()
    }

    fn part(&self, location: TensorLocation) -> StoredPart {
        StoredPart {
            file: location.0,
            number: location.1,
            stored: self.stored(location),
        }
    }

    fn as_stored(&self, location: TensorLocation) -> TensorInfo {
        let tensor = &self.files[location.0].tensors()[location.1];
        TensorInfo {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
            parts: [self.part(location)].into(),
            base: tensor.base,
            alias_of: None,
            len_bytes: tensor.len_bytes(),
            weight: None,
            #[cfg(feature = "gguf")]
            block_type: self.files[location.0].block_type(location.1),
            #[cfg(feature = "gguf")]
            quantised_len_bytes: self.files[location.0].quantised_len_bytes(location.1),
            #[cfg(all(feature = "compressed-tensors", not(feature = "gguf")))]
            quantised_len_bytes: None,
            #[cfg(feature = "virtual-headers")]
            stored_share_bytes: self.files[location.0].stored_share_bytes(location.1),
            #[cfg(feature = "virtual-headers")]
            record_base: None,
        }
    }
}

/// Returns the stored tensors that belong to the model (docs/formats/sharded.md
/// 2), and the tensors that the index lists and no file has.
fn locations(
    files: &[FileCatalog],
    shards: Option<&ShardIndex>,
) -> (BTreeMap<String, TensorLocation>, Refusals) {
    let (mut locations, mut missing) = (BTreeMap::new(), Vec::new());
    for (tensor, file) in shards.into_iter().flat_map(ShardIndex::weights) {
        let of_index = files.get(file);
        if of_index.is_some_and(|file| file.refused().get(tensor).is_some()) {
            continue;
        }
        match of_index.and_then(|file| file.find(tensor).ok()) {
            Some(number) => {
                locations.insert(tensor.into(), (file, number));
            }
            None => {
                let name = shards.map_or("", |shards| &shards.files()[file]);
                let detail = format!("the index lists the tensor in `{name}`, where it is not");
                let refusal = Error::malformed(Rule::ShardTensorMissing, detail).tensor(tensor);
                missing.push((tensor.into(), refusal));
            }
        }
    }
    for (file, catalog) in files.iter().enumerate() {
        for (number, tensor) in catalog.tensors().iter().enumerate() {
            // A tensor that the index assigns to another file is not read from
            // this one.
            let meant = shards.and_then(|shards| shards.file_of(&tensor.name));
            if meant.is_some_and(|meant| meant != file) {
                continue;
            }
            let entry = locations.entry(tensor.name.clone());
            entry.or_insert((file, number));
        }
    }
    (locations, missing)
}
