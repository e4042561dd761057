//! What it takes to decode one tensor, cut out of its model: a few hundred
//! bytes that another thread, or another instance of this library, can use.

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Model, Part, Tensor, decode};
use crate::catalog::Catalog;
use crate::engine::Engine;
use crate::{Error, Result};

/// How one tensor comes from the stored bytes of its parts. Made by
/// [`Model::recipe`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Recipe {
    /// One for every part of the tensor, of that part alone.
    files: Vec<Catalog>,
    tensor: Tensor,
}

impl Recipe {
    /// Bytes for [`Recipe::from_bytes`]. Their form is no format: only the
    /// same version of this library reads them.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // Writing to memory fails for types that have no length beforehand;
        // here are none.
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// The recipe of such bytes. They are believed: what comes from a file
    /// has been checked when the model was opened.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        postcard::from_bytes(bytes).map_err(|error| {
            Error::invalid_input(format!(
                "these bytes say nothing of a tensor ({error}); both sides must be of one version"
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
        decode(&self.files, &self.tensor, engine, parts, base)
    }
}

impl Model {
    /// What decoding tensor `number` takes.
    ///
    /// # Panics
    /// If there is no tensor of that number.
    #[must_use]
    pub fn recipe(&self, number: usize) -> Recipe {
        let tensor = &self.tensors[number];
        let parts = tensor.parts.iter();
        Recipe {
            files: parts
                .clone()
                .map(|part| self.files[part.file].only(part.number))
                .collect(),
            tensor: Tensor {
                parts: parts
                    .enumerate()
                    .map(|(file, part)| Part {
                        file,
                        number: 0,
                        stored: part.stored.clone(),
                    })
                    .collect(),
                shared_with: None,
                ..tensor.clone()
            },
        }
    }
}
