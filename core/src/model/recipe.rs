//! What it takes to decode one tensor, cut out of its model: some hundred
//! bytes that another thread, or another instance of this library, can use.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use postcard::ser_flavors::Flavor;
use postcard::serialize_with_flavor;
use serde::{Deserialize, Serialize};

use super::{Model, Weight, decode};
use crate::catalog::Catalog;
use crate::engine::Engine;
use crate::{Error, Result};

/// How one tensor comes from the stored bytes of its parts. Made by
/// [`Model::recipe`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Recipe {
    name: String,
    /// One for every part, with that part alone.
    parts: Vec<Catalog>,
    /// How the parts make a weight, and its shape.
    weight: Option<(Weight, Vec<u64>)>,
}

impl Recipe {
    /// Bytes for [`Recipe::from_bytes`]. Their form is no format: only the
    /// same version of this library reads them.
    // Cold: a few hundred bytes for a tensor; small code is worth more.
    #[cold]
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // Writing to memory fails for types that do not know their length
        // beforehand; here are none.
        serialize_with_flavor(self, Out(Vec::new())).unwrap_or_default()
    }

    /// The recipe of such bytes. They are believed: what comes from a file
    /// was checked when the model was opened.
    #[cold]
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        postcard::from_bytes(bytes).map_err(|error| {
            Error::invalid_input(format!(
                "these bytes are not what decoding a tensor takes ({error}): the two sides are of \
                 different versions"
            ))
        })
    }

    /// As [`Model::decode`] of the model it was made by.
    pub fn decode<'a, E: Engine>(
        &self,
        engine: &E,
        parts: &[&'a [u8]],
        base: Option<&'a [u8]>,
    ) -> Result<Cow<'a, [u8]>> {
        let weight = self.weight.as_ref();
        let weight = weight.map(|(weight, shape)| (weight, shape.as_slice()));
        let places = self.parts.iter().map(|part| (part, 0));
        decode(&self.name, places, weight, engine, parts, base)
    }
}

/// Bytes being written. Not inlined: postcard's own writer takes three times
/// the code in WebAssembly.
struct Out(Vec<u8>);

impl Flavor for Out {
    type Output = Vec<u8>;

    #[inline(never)]
    fn try_extend(&mut self, data: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(data);
        Ok(())
    }

    #[inline(never)]
    fn try_push(&mut self, data: u8) -> postcard::Result<()> {
        self.0.push(data);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<Vec<u8>> {
        Ok(self.0)
    }
}

impl Model {
    /// What decoding tensor `number` takes.
    ///
    /// # Panics
    /// If there is no tensor of that number.
    #[cold]
    #[must_use]
    pub fn recipe(&self, number: usize) -> Recipe {
        let tensor = &self.tensors[number];
        let parts = tensor.parts.iter();
        let weight = tensor.weight.as_deref();
        Recipe {
            name: tensor.name.clone(),
            parts: parts
                .map(|part| self.files[part.file].only(part.number))
                .collect(),
            weight: weight.map(|weight| (weight.clone(), tensor.shape.clone())),
        }
    }
}
