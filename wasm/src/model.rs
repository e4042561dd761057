//! The model whose tensors JavaScript reads.

use alloc::string::String;
use alloc::vec::Vec;

use js_sys::{Array, Float64Array, Uint8Array};
use wasm_bindgen::prelude::*;
use zstn_core::catalog::FileCatalog;
use zstn_core::container::model_delta::{BaseHeader, Mixes};
use zstn_core::model::{Model as Core, TensorInfo};

use crate::Part;
use crate::computed_base::ComputedBase;
use crate::conversion::{plane_lines, to_js_error, to_u64, triples};
use crate::decode::{ENGINE, decoded};
use crate::description::Description;
use crate::opening::Catalog;

/// An opened model: describes its tensors and decodes them.
#[wasm_bindgen]
pub struct Model(Core);

impl Model {
    pub(crate) fn new(core: Core) -> Self {
        Self(core)
    }

    pub(crate) fn core(&self) -> &Core {
        &self.0
    }
}

#[wasm_bindgen]
impl Model {
    /// Returns the description of the model as `[kind, originalBytes, text, numbers,
    /// refused]`. [`Description`] documents `text` and `numbers`. `originalBytes` is the
    /// total length of the safetensors files that the model is or was packed from, or the
    /// total length of its tensors if there were no such files. `refused` contains the
    /// errors of the tensors that cannot be read.
    pub fn describe(&self) -> Result<Array, JsValue> {
        let description = Description::new(&self.0).map_err(|e| to_js_error(&e))?;
        let refused = self.0.refused();
        let refused = refused.map(|(name, error)| to_js_error(&error.clone().tensor(name)));
        Ok(Array::of5(
            &self.0.kind().name().into(),
            &(self.0.original_len_bytes() as f64).into(),
            &description.text.into(),
            &Float64Array::from(description.numbers.as_slice()).into(),
            &refused.collect::<Array>().into(),
        ))
    }

    /// Returns whether the model is a delta, which is read together with its base.
    #[wasm_bindgen(js_name = needsBase)]
    #[must_use]
    pub fn needs_base(&self) -> bool {
        self.0.needs_base()
    }

    /// Returns an error if this delta was made against another base than `base`.
    /// Otherwise retains the digests of the base's tensors.
    #[wasm_bindgen(js_name = checkBase)]
    pub fn check_base(&mut self, base: &Self) -> Result<(), JsValue> {
        self.0.attach_base(&base.0).map_err(|e| to_js_error(&e))
    }

    /// Returns the name of the base's tensor that tensor `index` depends on.
    #[wasm_bindgen(js_name = nameInBase)]
    #[must_use]
    pub fn name_in_base(&self, index: usize) -> Option<String> {
        self.0.name_in_base(index).map(Into::into)
    }

    /// Returns the format of the file that this delta restores, if that is no safetensors
    /// file; otherwise undefined.
    #[wasm_bindgen(js_name = restoredKind)]
    #[must_use]
    pub fn restored_kind(&self) -> Option<String> {
        let [delta] = self.0.files() else {
            return None;
        };
        let kind = delta.original_kind().filter(|_| delta.needs_base());
        kind.map(Into::into)
    }

    /// Returns the catalog of the bytes that this delta refers to in the base's file,
    /// which has `sizeBytes`, if it restores no safetensors file; otherwise undefined.
    #[wasm_bindgen(js_name = referencedBase)]
    pub fn referenced_base(
        &self,
        #[wasm_bindgen(js_name = sizeBytes)] size_bytes: f64,
    ) -> Result<Option<Catalog>, JsValue> {
        let [delta] = self.0.files() else {
            return Ok(None);
        };
        let found = to_u64(size_bytes).and_then(|size_bytes| delta.referenced_base(size_bytes));
        let found = found.map_err(|e| to_js_error(&e))?;
        Ok(found.map(Catalog::new))
    }

    /// Returns the number of checkpoints that the base of this delta is computed from, 0 if
    /// it is a checkpoint itself.
    #[wasm_bindgen(js_name = sourceCount)]
    #[must_use]
    pub fn source_count(&self) -> usize {
        let mixes = self.0.files().iter().find_map(FileCatalog::mixes);
        mixes.map_or(0, Mixes::sources)
    }

    /// Returns the base of the delta in file `number`, computed from safetensors files with
    /// these `heads`, which end where the data begin, and these lengths in bytes. Returns
    /// undefined for a file whose base is not computed.
    #[wasm_bindgen(js_name = computedBase)]
    #[allow(clippy::needless_pass_by_value)] // the way wasm-bindgen passes arrays
    pub fn computed_base(
        &self,
        number: usize,
        heads: Vec<Uint8Array>,
        #[wasm_bindgen(js_name = sizesBytes)] sizes_bytes: Vec<f64>,
    ) -> Result<Option<ComputedBase>, JsValue> {
        let compute = || {
            let sources = heads.iter().zip(&sizes_bytes);
            let headers = sources
                .map(|(head, size_bytes)| BaseHeader::parse(&head.to_vec(), to_u64(*size_bytes)?));
            let headers: Vec<BaseHeader> = headers.collect::<Result<_, _>>()?;
            let file = self.0.files().get(number);
            file.map_or(Ok(None), |file| file.mixed_base(&headers))
        };
        let base = compute().map_err(|e| to_js_error(&e))?;
        Ok(base.map(ComputedBase::new))
    }

    /// Returns the short digests of all tensors, concatenated: 16 bytes for each tensor,
    /// zeros if its file has no digest.
    #[must_use]
    pub fn digests(&self) -> Vec<u8> {
        let numbers = 0..self.0.tensors().len();
        let digest = |number| self.0.tensor_digest(number).unwrap_or_default();
        numbers.flat_map(digest).collect()
    }

    /// Returns the compiled module, from which other instances can be created.
    #[must_use]
    pub fn module(&self) -> JsValue {
        wasm_bindgen::module()
    }

    /// Returns whether the stored bytes of tensor `index` are its decoded bytes.
    #[wasm_bindgen(js_name = isPlain)]
    #[must_use]
    pub fn is_plain(&self, index: usize) -> bool {
        self.0.is_plain(index)
    }

    /// Returns the serialised task with which another instance decodes tensor `index`:
    /// the argument `task` of the function `decode`.
    pub fn task(&self, index: usize) -> Result<Vec<u8>, JsValue> {
        let task = self
            .0
            .decode_task(index)
            .map_err(|error| to_js_error(&error))?;
        Ok(task.to_bytes())
    }

    /// Returns the encoded task of decoding tensor `index` from its frame: the argument
    /// `task` of the function `shaderLists`. Returns undefined for a tensor that has no
    /// such task.
    #[wasm_bindgen(js_name = frameTask)]
    #[must_use]
    pub fn frame_task(&self, index: usize) -> Option<Vec<u8>> {
        self.0.frame_task(index).map(|task| task.to_bytes())
    }

    /// Returns the range of the block table of tensor `index`, which `part` needs, as
    /// `[file, offset, length]`; empty if it needs none.
    #[wasm_bindgen(js_name = blockTable)]
    #[must_use]
    pub fn block_table(&self, index: usize) -> Vec<f64> {
        triples(self.0.block_table(index, &[]))
    }

    /// Returns a longer range, like `blockTable`, if `table` is too short; empty if it is
    /// long enough.
    #[wasm_bindgen(js_name = longerTable)]
    #[must_use]
    pub fn longer_table(&self, index: usize, table: &[u8]) -> Vec<f64> {
        triples(self.0.block_table(index, table))
    }

    /// Returns the statistics record of `file`, followed by the offset in the file at
    /// which its bands end, as a u64. Returns undefined if the file has no statistics.
    /// Also returns undefined if the model reads some of the file's tensors from another
    /// file, or if the file restores no safetensors file, because JavaScript parses the
    /// record by the tensors of the model.
    #[must_use]
    pub fn statistics(&self, file: usize) -> Option<Vec<u8>> {
        let catalog = self.0.files().get(file)?;
        if catalog.original_kind().is_some() {
            return None;
        }
        let in_file =
            |tensor: &&TensorInfo| tensor.parts.first().is_some_and(|part| part.file == file);
        if self.0.tensors().iter().filter(in_file).count() != catalog.tensors().len() {
            return None;
        }
        let (record, bands_end) = catalog.integrity()?.statistics_bytes()?;
        Some([record, &bands_end.to_le_bytes()].concat())
    }

    /// Returns the stored size of each plane of tensor `index`: one line for each plane,
    /// with tabs between its name, its method and its decoded and stored lengths.
    /// Returns undefined if the file does not state them. `table` is the block table, as
    /// for `part`.
    #[wasm_bindgen(js_name = planeSizes)]
    pub fn plane_sizes(
        &self,
        index: usize,
        table: Option<Vec<u8>>,
    ) -> Result<Option<String>, JsValue> {
        let planes = self.0.plane_sizes(index, table.as_deref());
        let planes = planes.map_err(|e| to_js_error(&e))?;
        Ok(planes.map(|planes| plane_lines(&planes)))
    }

    /// Returns the plan for reading bytes `start` to `end` (exclusive) of tensor `index`.
    pub fn part(
        &self,
        index: usize,
        start: f64,
        end: f64,
        table: Option<Vec<u8>>,
    ) -> Result<Part, JsValue> {
        let span = to_u64(start).and_then(|start| Ok(start..to_u64(end)?));
        span.and_then(|span| self.0.part(index, span, table.as_deref()))
            .map(Part::new)
            .map_err(|e| to_js_error(&e))
    }

    /// Returns the range of the original that holds the values of tensor `index`, as
    /// `[offset, length]`, if they are only a part of an entry; otherwise empty.
    #[wasm_bindgen(js_name = partOfEntry)]
    #[must_use]
    pub fn part_of_entry(&self, index: usize) -> Vec<f64> {
        let range = self.0.part_of_entry(index);
        let range = range.map(|range| [range.start as f64, (range.end - range.start) as f64]);
        range.map(Vec::from).unwrap_or_default()
    }

    /// Returns the raw bytes of tensor `index` from the bytes of the range that
    /// `partOfEntry` has returned.
    #[wasm_bindgen(js_name = valuesOfPart)]
    pub fn values_of_part(&self, index: usize, bytes: &[u8]) -> Result<Vec<u8>, JsValue> {
        let values = self.0.values_of_part(index, bytes);
        values.map_err(|e| to_js_error(&e))
    }

    /// Decodes tensor `index` from the stored bytes of its `parts`, in order. `base` is
    /// the base's tensor called `nameInBase`, if it is needed. The raw bytes are written to
    /// `into` if it is given, which must have exactly their length.
    pub fn decode(
        &self,
        index: usize,
        parts: Vec<Uint8Array>,
        base: Option<Vec<u8>>,
        into: Option<Uint8Array>,
    ) -> Result<Uint8Array, JsValue> {
        decoded(&parts, base.as_deref(), into, |parts, base| {
            self.0.decode(&ENGINE, index, parts, base)
        })
    }
}
