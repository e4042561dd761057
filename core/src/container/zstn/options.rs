//! How a container is written.

use alloc::vec::Vec;

use super::integrity::FrameDigests;
use crate::TensorRef;
use crate::engine::PackEngine;
use crate::frame::select::{self, Effort, EncodeOptions};

/// How a container is written. By default it has an integrity section, and a
/// file that ends before its tensors do is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContainerOptions {
    /// How tensors are encoded.
    pub encode: EncodeOptions,
    /// Whether the container gets an integrity section
    /// (docs/formats/zstn-integrity.md); z4ai writes none.
    pub has_integrity: bool,
    /// Whether a file that ends before its tensors do is packed, whole, as one
    /// frame. Almost always such a file is a download or a copy that failed.
    pub allow_truncated: bool,
}

impl ContainerOptions {
    /// Creates the default options for an effort.
    #[must_use]
    pub fn new(effort: Effort) -> Self {
        Self {
            encode: EncodeOptions::new(effort),
            has_integrity: true,
            allow_truncated: false,
        }
    }

    /// Adds the integrity section, or leaves it out.
    #[must_use]
    pub fn integrity(mut self, has_integrity: bool) -> Self {
        self.has_integrity = has_integrity;
        self
    }

    /// Packs files that end before their tensors do, or refuses them.
    #[must_use]
    pub fn allow_truncated(mut self, allow: bool) -> Self {
        self.allow_truncated = allow;
        self
    }

    /// Encodes one tensor, and digests it if the container has an integrity
    /// section.
    #[must_use]
    pub fn code<E: PackEngine>(&self, engine: &E, tensor: TensorRef) -> CodedTensor {
        let frame = select::encode(engine, tensor, self.encode);
        let digests = || FrameDigests::of(engine, tensor.bytes, &frame);
        CodedTensor {
            digests: self.has_integrity.then(digests),
            frame,
        }
    }
}

impl Default for ContainerOptions {
    fn default() -> Self {
        Self::new(Effort::default())
    }
}

impl From<Effort> for ContainerOptions {
    fn from(effort: Effort) -> Self {
        Self::new(effort)
    }
}

/// A frame to be written, and its digests if the container has an integrity
/// section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodedTensor {
    /// The frame.
    pub frame: Vec<u8>,
    /// Its digests, for [`ContainerBuilder::frame`](super::ContainerBuilder::frame).
    pub digests: Option<FrameDigests>,
}
