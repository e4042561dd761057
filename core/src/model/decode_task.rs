//! The data required to decode one tensor, separated from its model: a few
//! hundred bytes that can be sent to another thread or another instance of this
//! library.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use postcard::ser_flavors::Flavor;
use postcard::serialize_with_flavor;
use serde::{Deserialize, Serialize};

use super::{Model, Weight, decode};
use crate::catalog::{FileCatalog, FrameTask};
use crate::engine::Engine;
use crate::{Error, Result};

/// The task of decoding one tensor from the stored bytes of its parts. Made by
/// [`Model::decode_task`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DecodeTask {
    name: String,
    /// The catalog of each part, reduced to that part.
    parts: Vec<FileCatalog>,
    /// The description of how a weight is computed from its parts, with the
    /// shape of the result.
    weight: Option<(Weight, Vec<u64>)>,
}

impl DecodeTask {
    /// Serializes the task for [`DecodeTask::from_bytes`]. The encoding is not
    /// a file format: only the same version of this library can read it.
    // The function is cold because a task has only a few hundred bytes, so that
    // small code matters more than speed.
    #[cold]
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // Serialization into memory only fails for types whose length is
        // unknown in advance, and the task contains none.
        serialize_with_flavor(self, Out(Vec::new())).unwrap_or_default()
    }

    /// Deserializes a task. The bytes are trusted: all data from files were
    /// checked when the model was opened.
    #[cold]
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        // Postcard's own messages would add their texts to every reader, and do
        // not help the caller.
        postcard::from_bytes(bytes).map_err(|_| {
            Error::invalid_input(
                "these bytes are not a task to decode a tensor: the two sides have different \
                 versions",
            )
        })
    }

    /// Decodes the tensor like [`Model::decode`] does in the model that made
    /// the task.
    pub fn decode<'a, E: Engine>(
        &self,
        engine: &E,
        parts: &[&'a [u8]],
        base: Option<&'a [u8]>,
    ) -> Result<Cow<'a, [u8]>> {
        let weight = self.weight.as_ref();
        let weight = weight.map(|(weight, shape)| (weight, shape.as_slice()));
        let locations = self.parts.iter().map(|part| (part, 0));
        decode(&self.name, locations, weight, engine, parts, base)
    }
}

/// A growable output buffer. Its methods are not inlined, which takes a third
/// of the code that postcard's own writer takes in WebAssembly.
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
    /// Returns the task of decoding tensor `number` from its frame, which is smaller
    /// than a [`DecodeTask`]; `None` for a tensor that has no such task
    /// ([`FileCatalog::frame_task`]), or for a number that is out of bounds.
    #[must_use]
    pub fn frame_task(&self, number: usize) -> Option<FrameTask> {
        let part = self.tensors.get(number)?.only_part()?;
        self.files[part.file].frame_task(part.number)
    }

    /// Returns the task of decoding tensor `number`.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the number is out of
    /// bounds.
    #[cold]
    pub fn decode_task(&self, number: usize) -> Result<DecodeTask> {
        let tensor = self.tensor(number)?;
        let parts = tensor.parts.iter();
        let weight = tensor.weight.as_deref();
        Ok(DecodeTask {
            name: tensor.name.clone(),
            parts: parts
                .map(|part| self.files[part.file].project(part.number))
                .collect(),
            weight: weight.map(|weight| (weight.clone(), tensor.shape.clone())),
        })
    }
}
