//! From opened files to a model; the reads in between are JavaScript's.

use wasm_bindgen::prelude::*;
use zstn_core::container::safetensors::ShardIndex as CoreShardIndex;
use zstn_core::model::{ModelBuilder as Core, Verify};
use zstn_core::pure::Pure;

use crate::error::to_js_error;
use crate::number::to_u64;
use crate::ranges::triples;
use crate::{Catalog, Model};

/// The index of a checkpoint in several files.
#[wasm_bindgen]
pub struct ShardIndex(CoreShardIndex);

#[wasm_bindgen]
impl ShardIndex {
    /// Reads the text of `model.safetensors.index.json`.
    #[wasm_bindgen(constructor)]
    pub fn new(json: &[u8]) -> Result<Self, JsValue> {
        CoreShardIndex::parse(json)
            .map(Self)
            .map_err(|e| to_js_error(&e))
    }
}

/// A model being put together.
#[wasm_bindgen]
pub struct Assembly(Core);

#[wasm_bindgen]
impl Assembly {
    /// Takes the `files` of a model, in the order of `shards.files()` if there
    /// are shards, and the text of its `config.json`, if that is wanted.
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

    /// Ranges still missing as `[file, offset, length, …]`; empty once
    /// `finish` can work.
    #[must_use]
    pub fn needs(&self) -> Vec<f64> {
        triples(self.0.needs())
    }

    /// Adds the bytes of one range that `needs` has named.
    pub fn supply(&mut self, file: usize, offset: f64, bytes: &[u8]) -> Result<(), JsValue> {
        let offset = to_u64(offset).map_err(|e| to_js_error(&e))?;
        self.0.supply(file, offset, bytes);
        Ok(())
    }

    /// The model; `full` compares the digests of its tensors as well when they
    /// are read. The assembly is used up.
    pub fn finish(self, full: bool) -> Result<Model, JsValue> {
        let verify = if full { Verify::Full } else { Verify::Stored };
        self.0
            .verify(verify)
            .finish(&Pure)
            .map(Model::new)
            .map_err(|e| to_js_error(&e))
    }
}
