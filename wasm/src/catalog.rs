//! The catalog of one opened file of a model.

use wasm_bindgen::prelude::*;
use zstn_core::catalog::FileCatalog as Core;
use zstn_core::model::{Verify, wants_config};

/// The catalog of an opened file. An `Assembly` builds a model from one or several
/// catalogs.
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

    /// Returns whether only the module with all formats can verify the tensors of this
    /// file; with `full`, verification includes digests.
    #[wasm_bindgen(js_name = isVerifyLeftOut)]
    #[must_use]
    pub fn is_verify_left_out(&self, full: bool) -> bool {
        let verify = if full { Verify::Full } else { Verify::Stored };
        self.0.is_verify_left_out(verify)
    }
}
