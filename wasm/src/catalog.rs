//! One opened file of a model.

use wasm_bindgen::prelude::*;
use zstn_core::catalog::FileCatalog as Core;
use zstn_core::model::{Verify, wants_config};

/// The catalog of an opened file. An `Assembly` makes a model of one or several.
#[wasm_bindgen]
pub struct Catalog(Core);

impl Catalog {
    pub(crate) fn new(core: Core) -> Self {
        Self(core)
    }

    pub(crate) fn into_core(self) -> Core {
        self.0
    }
}

#[wasm_bindgen]
impl Catalog {
    /// Returns whether names of its tensors are such that the model's `config.json`
    /// may have something to say about them.
    #[wasm_bindgen(js_name = wantsConfig)]
    #[must_use]
    pub fn wants_config(&self) -> bool {
        wants_config(core::slice::from_ref(&self.0))
    }

    /// Returns whether the file has checksums of everything that opening and decoding
    /// read, which are compared.
    #[wasm_bindgen(js_name = isCovered)]
    #[must_use]
    pub fn is_covered(&self) -> bool {
        self.0.is_covered()
    }

    /// Returns whether comparing what is read, with digests if `full`, takes the
    /// module with all formats.
    #[wasm_bindgen(js_name = isVerifyLeftOut)]
    #[must_use]
    pub fn is_verify_left_out(&self, full: bool) -> bool {
        let verify = if full { Verify::Full } else { Verify::Stored };
        self.0.is_verify_left_out(verify)
    }
}
