//! Metadata fields that the format does not define (docs/formats/ztensor.md
//! 3.4).

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use minicbor::{Decoder, Encoder};

use super::cbor::{Item, Style};
use crate::{Error, Result};

/// The largest nesting depth of a custom value.
const DEPTH: u32 = 90;

/// A key with a value of any type, stored in its original encoding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    name: String,
    value: Vec<u8>,
}

impl Field {
    /// Creates a field whose value is one CBOR item.
    pub fn new(name: impl Into<String>, value: Vec<u8>) -> Result<Self> {
        let style = Style {
            depth: DEPTH,
            is_deterministic: false,
        };
        Item::check(&value, 0, style)
            .map_err(|_| Error::invalid_input("the value of a field is not one CBOR item"))?;
        Ok(Self {
            name: name.into(),
            value,
        })
    }

    /// Creates a field whose value is a text string.
    #[must_use]
    pub fn from_text(name: impl Into<String>, text: &str) -> Self {
        let mut encoder = Encoder::new(Vec::new());
        // Encoding into memory cannot fail.
        let _ = encoder.str(text);
        Self {
            name: name.into(),
            value: encoder.into_writer(),
        }
    }

    /// Creates a field from an item of a manifest that has been checked as a
    /// whole.
    pub(super) fn checked(name: &str, value: Item) -> Self {
        Self {
            name: name.into(),
            value: value.bytes().into(),
        }
    }

    /// Returns the key.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the value, which is one CBOR item.
    #[must_use]
    pub fn cbor(&self) -> &[u8] {
        &self.value
    }

    /// Returns the value if it is a text string.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        Decoder::new(&self.value).str().ok()
    }
}
