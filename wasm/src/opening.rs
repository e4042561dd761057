//! Opens files step by step, and builds a model from them. JavaScript does the
//! reads in between.

use wasm_bindgen::prelude::*;
use zstn_core::catalog::{FileCatalog, FileOpener};
use zstn_core::container::safetensors::ShardIndex as CoreShardIndex;
use zstn_core::model::{ModelBuilder, Verify, wants_config};
use zstn_core::pure::Pure;

use crate::conversion::{to_js_error, to_u64, triples};
use crate::model::Model;
use crate::virtual_header::parts;

/// A file that is being opened.
#[wasm_bindgen]
pub struct Opening(FileOpener);

#[wasm_bindgen]
impl Opening {
    /// Starts to open a file of any format, which is recognised by its first bytes or by
    /// its name. `head` has [`zstn_core::limits::HEAD_LEN_BYTES`] bytes, or is the whole file
    /// if that is shorter.
    pub fn named(
        name: &str,
        #[wasm_bindgen(js_name = sizeBytes)] size_bytes: f64,
        head: Vec<u8>,
    ) -> Result<Self, JsValue> {
        let size = to_u64(size_bytes).map_err(|e| to_js_error(&e))?;
        FileOpener::named(name, size, head)
            .map(Self)
            .map_err(|e| to_js_error(&e))
    }

    /// Returns the missing ranges as `[offset, length, offset, length, …]`; empty once
    /// `finish` can be called.
    pub fn needs(&self) -> Result<Vec<f64>, JsValue> {
        let ranges = self.0.needs().map_err(|e| to_js_error(&e))?;
        Ok(ranges
            .into_iter()
            .flat_map(|range| [range.start as f64, (range.end - range.start) as f64])
            .collect())
    }

    /// Adds the bytes of one range that `needs` has returned.
    pub fn supply(&mut self, offset: f64, bytes: &[u8]) -> Result<(), JsValue> {
        let offset = to_u64(offset).map_err(|e| to_js_error(&e))?;
        self.0.supply(offset, bytes).map_err(|e| to_js_error(&e))
    }

    /// Returns the catalog of the file and consumes the opening.
    pub fn finish(self) -> Result<Catalog, JsValue> {
        self.0
            .finish(&Pure)
            .map(Catalog::new)
            .map_err(|e| to_js_error(&e))
    }
}

/// The catalog of an opened file. An `Assembly` builds a model from one or several
/// catalogs.
#[wasm_bindgen]
pub struct Catalog(FileCatalog);

impl Catalog {
    pub(crate) fn new(core: FileCatalog) -> Self {
        Self(core)
    }

    pub(crate) fn into_core(self) -> FileCatalog {
        self.0
    }
}

#[wasm_bindgen]
impl Catalog {
    /// Returns whether the names of the file's tensors suggest that the model's
    /// `config.json` describes some of them.
    #[wasm_bindgen(js_name = wantsConfig)]
    #[must_use]
    pub fn wants_config(&self) -> bool {
        wants_config(core::slice::from_ref(&self.0))
    }

    /// Returns whether checksums cover all the bytes that opening and decoding the file
    /// read. These checksums are then compared.
    #[wasm_bindgen(js_name = isCovered)]
    #[must_use]
    pub fn is_covered(&self) -> bool {
        self.0.is_covered()
    }

    /// Returns the paths of the other files that contain values of an ONNX model,
    /// relative to the folder of the model.
    #[wasm_bindgen(js_name = externalFiles)]
    #[must_use]
    pub fn external_files(&self) -> Vec<String> {
        self.0.external_files().map(Into::into).collect()
    }

    /// Returns the catalog of the values in another file of `sizeBytes` bytes.
    pub fn external(
        &self,
        number: usize,
        #[wasm_bindgen(js_name = sizeBytes)] size_bytes: f64,
    ) -> Result<Catalog, JsValue> {
        let size = to_u64(size_bytes).map_err(|e| to_js_error(&e))?;
        let catalog = self.0.external(number, size);
        catalog.map(Self).map_err(|e| to_js_error(&e))
    }

    /// Returns the names of the other GGUF files of the model, if this is the first of
    /// several and called `name`.
    #[wasm_bindgen(js_name = furtherGgufFiles)]
    #[must_use]
    pub fn further_gguf_files(&self, name: &str) -> Vec<String> {
        self.0.further_gguf_files(name)
    }

    /// Checks that this is the one of several GGUF files that `name` states, and returns
    /// the number of its tensors.
    #[wasm_bindgen(js_name = checkGgufPart)]
    pub fn check_gguf_part(&self, name: &str) -> Result<f64, JsValue> {
        let tensors = self.0.check_gguf_part(name);
        tensors.map(|n| n as f64).map_err(|e| to_js_error(&e))
    }

    /// Checks that the GGUF files of the model have as many tensors as this one, the
    /// first, states. They have `tensors`.
    #[wasm_bindgen(js_name = checkGgufTotal)]
    pub fn check_gguf_total(&self, tensors: f64) -> Result<(), JsValue> {
        let checked = to_u64(tensors).and_then(|tensors| self.0.check_gguf_total(tensors));
        checked.map_err(|e| to_js_error(&e))
    }

    /// Makes the tensors with values in the files of these numbers unreadable, for this
    /// reason.
    #[wasm_bindgen(js_name = refuseExternal)]
    pub fn refuse_external(&mut self, numbers: Vec<usize>, reason: &str) -> Result<(), JsValue> {
        let files = numbers.into_iter().map(|number| (number, reason.into()));
        let files: Vec<(usize, String)> = files.collect();
        let refused = self.0.refuse_external(&files);
        refused.map_err(|e| to_js_error(&e))
    }

    /// Returns the format of the file that a ZSTN file restores, or `bytes`, if that is no
    /// safetensors file; otherwise undefined. It is undefined for a delta, inside which no
    /// original is opened.
    #[wasm_bindgen(js_name = originalKind)]
    #[must_use]
    pub fn original_kind(&self) -> Option<String> {
        let kind = self.0.original_kind().filter(|_| !self.0.needs_base());
        kind.map(Into::into)
    }

    /// Returns whether the catalog lists all tensors of the file that a ZSTN file
    /// restores.
    #[wasm_bindgen(js_name = isOriginalComplete)]
    #[must_use]
    pub fn is_original_complete(&self) -> bool {
        self.0.is_original_complete()
    }

    /// Returns whether a tensor of the catalog is only a part of an entry.
    #[wasm_bindgen(js_name = hasPartsOfEntries)]
    #[must_use]
    pub fn has_parts_of_entries(&self) -> bool {
        self.0.has_parts_of_entries()
    }

    /// Returns the catalog of the entries of a ZSTN file, which fill the file that it
    /// restores.
    #[must_use]
    pub fn entries(&self) -> Catalog {
        Self(self.0.clone().entries())
    }

    /// Returns the virtual header with which the file is packed, in the encoding of
    /// [`crate::virtual_header::parts`].
    #[wasm_bindgen(js_name = virtualHeader)]
    pub fn virtual_header(&self) -> Result<js_sys::Array, JsValue> {
        let header = self.0.virtual_header();
        header
            .map(|header| parts(&header))
            .map_err(|e| to_js_error(&e))
    }

    /// Replaces the metadata of a ZSTN file with the metadata of the file that it
    /// restores, whose catalog this call consumes.
    #[wasm_bindgen(js_name = takeMetadata)]
    pub fn take_metadata(&mut self, original: Catalog) {
        self.0.take_metadata(original.0);
    }
}

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
pub struct Assembly(ModelBuilder);

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
        ModelBuilder::new(files, shards.as_ref().map(|s| &s.0), config.as_deref())
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
