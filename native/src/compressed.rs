//! Models in the formats of compressed-tensors, from a folder
//! (docs/formats/compressed-tensors.md).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use zstn_core::Rule;
use zstn_core::catalog::Catalog;
use zstn_core::container::compressed_tensors::{Checkpoint, Config, Entry, Role, Stored, Weight};

use crate::reader::open_catalog;
use crate::source::{Map, Source};
use crate::{Error, Native, Result, Tensor};

const CONFIG: &str = "config.json";
const INDEX: &str = "model.safetensors.index.json";
const MODEL: &str = "model.safetensors";

/// A folder with `config.json` and `model.safetensors`, or the shards that
/// `model.safetensors.index.json` names. Opening reads the headers; after
/// that each tensor costs one read per part.
pub struct CompressedModel {
    folder: PathBuf,
    checkpoint: Checkpoint,
    shards: Vec<Shard>,
    /// Shard of each stored tensor.
    places: BTreeMap<String, usize>,
    engine: Native,
    rotated: bool,
}

/// One file of the model.
struct Shard {
    map: Map,
    catalog: Catalog,
}

impl CompressedModel {
    /// Opens a folder. Without `config.json` all tensors are as they are
    /// stored.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        let path = folder.join(CONFIG);
        let config = match std::fs::read(&path) {
            Ok(text) => Config::parse(&text).map_err(Error::place(path.display()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Config::default(),
            Err(error) => return Err(Error::file("read", &path)(error)),
        };
        let mut shards = Vec::new();
        let mut places = BTreeMap::new();
        let mut stored = Vec::new();
        for path in shard_paths(folder)? {
            let map = Map::open(&path)?;
            let catalog = open_catalog(&map)?;
            for tensor in catalog.tensors() {
                places.insert(tensor.name.clone(), shards.len());
                stored.push(Stored {
                    name: tensor.name.clone(),
                    dtype: tensor.dtype,
                    shape: tensor.shape.clone(),
                });
            }
            shards.push(Shard { map, catalog });
        }
        let checkpoint =
            Checkpoint::new(&config, stored).map_err(Error::place(folder.display()))?;
        Ok(Self {
            folder: folder.into(),
            checkpoint,
            shards,
            places,
            engine: Native::new(0)?,
            rotated: config.is_rotated(),
        })
    }

    /// The tensors of the dense model.
    #[must_use]
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// Whether weights were rotated before they were quantised: what is read
    /// is the rotated weight.
    #[must_use]
    pub fn is_rotated(&self) -> bool {
        self.rotated
    }

    /// The dense shape of a weight, which may cost a read of a few bytes.
    pub fn shape(&self, weight: &Weight) -> Result<Vec<u64>> {
        let part = weight.parts().iter().find(|part| part.role == Role::Shape);
        let bytes = match part {
            Some(part) => self.bytes(&part.stored.name)?,
            None => Vec::new(),
        };
        weight
            .shape_from(&bytes)
            .map_err(Error::place(self.folder.display()))
    }

    /// Reads the dense tensor called `name`.
    pub fn read(&self, name: &str) -> Result<Tensor> {
        let refuse = Error::place(self.folder.display());
        let weight = match self.checkpoint.find(name).map_err(&refuse)? {
            Entry::Weight(weight) => weight,
            _ => return self.read_stored(name),
        };
        let parts = weight
            .parts()
            .iter()
            .map(|part| self.bytes(&part.stored.name))
            .collect::<Result<Vec<_>>>()?;
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let dense = weight.decode(&parts).map_err(&refuse)?;
        Ok(Tensor {
            name: name.into(),
            dtype: dense.dtype,
            shape: dense.shape,
            bytes: dense.bytes,
        })
    }

    /// Reads the stored tensor called `name`: a part of a weight, or a tensor
    /// that is dense.
    pub fn read_stored(&self, name: &str) -> Result<Tensor> {
        let (shard, number) = self.place(name)?;
        let tensor = &shard.catalog.tensors()[number];
        Ok(Tensor {
            name: name.into(),
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
            bytes: self.bytes(name)?,
        })
    }

    fn place(&self, name: &str) -> Result<(&Shard, usize)> {
        let refuse = Error::place(self.folder.display());
        let shard = self.places.get(name);
        let shard = shard.ok_or_else(|| refuse(zstn_core::Error::not_found(name)))?;
        let shard = &self.shards[*shard];
        let number = shard.catalog.find(name).map_err(refuse)?;
        Ok((shard, number))
    }

    fn bytes(&self, name: &str) -> Result<Vec<u8>> {
        let (shard, number) = self.place(name)?;
        let stored = shard
            .map
            .read(shard.catalog.tensors()[number].stored.clone())?;
        let bytes = shard.catalog.decode(&self.engine, number, &stored);
        Ok(bytes.map_err(Error::place(shard.map.name()))?.into_owned())
    }
}

/// The files of a model: those of the index if there is one. A file counts
/// only if it lies in the folder.
fn shard_paths(folder: &Path) -> Result<Vec<PathBuf>> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let path = folder.join(INDEX);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(vec![folder.join(MODEL)]);
        }
        Err(error) => return Err(Error::file("read", &path)(error)),
    };
    let refuse = |detail: String| {
        Error::place(path.display())(zstn_core::Error::malformed(
            Rule::CompressedTensorsConfig,
            detail,
        ))
    };
    let index: Index = serde_json::from_slice(&text)
        .map_err(|error| refuse(format!("the index of the shards cannot be read: {error}")))?;
    let names: BTreeSet<String> = index.weight_map.into_values().collect();
    names
        .into_iter()
        .map(|name| {
            let inside = Path::new(&name).file_name() == Some(name.as_ref());
            match inside {
                true => Ok(folder.join(name)),
                false => Err(refuse(format!(
                    "the shard `{name}` is no file of this folder"
                ))),
            }
        })
        .collect()
}
