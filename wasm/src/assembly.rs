//! Builds a model from opened files. JavaScript does the reads in between.

use wasm_bindgen::prelude::*;
use zstn_core::container::safetensors::ShardIndex as CoreShardIndex;
use zstn_core::model::{ModelBuilder as Core, Verify};
use zstn_core::pure::Pure;

use crate::error::to_js_error;
use crate::number::to_u64;
use crate::ranges::triples;
use crate::{Catalog, Model};

/// The parsed index of a checkpoint in several files.
#[wasm_bindgen]
pub struct ShardIndex(CoreShardIndex);

#[wasm_bindgen]
impl ShardIndex {
    /// Parses the text of `model.safetensors.index.json`.
    #[wasm_bindgen(constructor)]
    pub fn new(json: &[u8]) -> Result<Self, JsValue> {
        CoreShardIndex::parse(json)
            .map(Self)
            .map_err(|e| to_js_error(&e))
    }
}

/// A model that is being built from its files.
#[wasm_bindgen]
pub struct Assembly(Core);

#[wasm_bindgen]
impl Assembly {
    /// Creates the assembly from the `files` of a model and the text of its
    /// `config.json`, if the model needs it. With an index, the files are in the order of
    /// `shards.files()`.
    #[wasm_bindgen(constructor)]
    pub fn new(
        files: Vec<Catalog>,
        shards: Option<ShardIndex>,
        config: Option<Vec<u8>>,
    ) -> Result<Self, JsValue> {
        let files = files.into_iter().map(Catalog::into_core).collect();
        Core::new(files, shards.as_ref().map(|s| &s.0), config.as_deref())
            .map(Self)
            .map_err(|e| to_js_error(&e))
    }

    /// Returns the missing ranges as `[file, offset, length, …]`; empty once `finish` can
    /// be called.
    #[must_use]
    pub fn needs(&self) -> Vec<f64> {
        triples(self.0.needs())
    }

    /// Adds the bytes of one range that `needs` has returned.
    pub fn supply(&mut self, file: usize, offset: f64, bytes: &[u8]) -> Result<(), JsValue> {
        let offset = to_u64(offset).map_err(|e| to_js_error(&e))?;
        self.0.supply(file, offset, bytes);
        Ok(())
    }

    /// Returns the model and consumes the assembly. With `full`, the digests of tensors
    /// are also compared when they are read.
    pub fn finish(self, full: bool) -> Result<Model, JsValue> {
        let verify = if full { Verify::Full } else { Verify::Stored };
        self.0
            .verify(verify)
            .finish(&Pure)
            .map(Model::new)
            .map_err(|e| to_js_error(&e))
    }
}
