//! How a container is written.

use alloc::vec::Vec;

use super::OriginalSha256;
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
    /// Whether the integrity section gets statistics of the tensors
    /// (docs/formats/zstn-integrity.md 7).
    pub has_statistics: bool,
    /// Where the SHA-256 in the integrity section comes from.
    pub original_sha256: OriginalSha256,
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
            has_statistics: true,
            original_sha256: OriginalSha256::Computed,
            allow_truncated: false,
        }
    }

    /// Sets whether extension frames are written where they are smaller
    /// (docs/formats/extensions.md). A container with one is of a version that
    /// z4ai refuses.
    #[must_use]
    pub fn extended(mut self, extended: bool) -> Self {
        self.encode = self.encode.extended(extended);
        self
    }

    /// Adds the integrity section, or leaves it out.
    #[must_use]
    pub fn integrity(mut self, has_integrity: bool) -> Self {
        self.has_integrity = has_integrity;
        self
    }

    /// Adds statistics of the tensors to the integrity section, or leaves them
    /// out. A file without the section has none.
    #[must_use]
    pub fn statistics(mut self, has_statistics: bool) -> Self {
        self.has_statistics = has_statistics;
        self
    }

    /// Sets where the SHA-256 in the integrity section comes from. A file without the
    /// section has none.
    #[must_use]
    pub fn original_sha256(mut self, original_sha256: OriginalSha256) -> Self {
        self.original_sha256 = original_sha256;
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
            digests: self
                .has_integrity
                .then(|| self.described(engine, tensor, digests())),
            frame,
        }
    }

    /// Adds the statistics of a tensor to its digests, if the container has them.
    pub(super) fn described<E: PackEngine>(
        &self,
        engine: &E,
        tensor: TensorRef,
        digests: FrameDigests,
    ) -> FrameDigests {
        match self.has_statistics {
            true => digests.with_statistics(engine, tensor),
            false => digests,
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
