//! The options for writing a container.

use alloc::vec::Vec;

use super::OriginalSha256;
use super::integrity::FrameDigests;
use crate::TensorRef;
use crate::engine::PackEngine;
use crate::frame::select::{self, Effort, EncodeOptions};

/// The options for writing a container. By default it gets an integrity
/// section, and a file that ends before its tensors do is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContainerOptions {
    /// The options for encoding tensors.
    pub encode: EncodeOptions,
    /// True if the container gets an integrity section
    /// (docs/formats/zstn-integrity.md). z4ai writes none.
    pub has_integrity: bool,
    /// True if the integrity section contains statistics of the tensors
    /// (docs/formats/zstn-integrity.md 7).
    pub has_statistics: bool,
    /// The source of the SHA-256 in the integrity section.
    pub original_sha256: OriginalSha256,
    /// True if a file that ends before its tensors do is packed as one frame.
    /// Such a file is almost always the result of a failed download or copy.
    pub allow_truncated: bool,
}

impl ContainerOptions {
    /// Creates the default options for the given effort.
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
    /// (docs/formats/extensions.md). z4ai refuses containers with such a frame
    /// because of their version.
    #[must_use]
    pub fn extended(mut self, extended: bool) -> Self {
        self.encode = self.encode.extended(extended);
        self
    }

    /// Sets whether the container gets an integrity section.
    #[must_use]
    pub fn integrity(mut self, has_integrity: bool) -> Self {
        self.has_integrity = has_integrity;
        self
    }

    /// Sets whether the integrity section contains statistics of the tensors.
    /// It has no effect without an integrity section.
    #[must_use]
    pub fn statistics(mut self, has_statistics: bool) -> Self {
        self.has_statistics = has_statistics;
        self
    }

    /// Sets the source of the SHA-256 in the integrity section. It has no
    /// effect without an integrity section.
    #[must_use]
    pub fn original_sha256(mut self, original_sha256: OriginalSha256) -> Self {
        self.original_sha256 = original_sha256;
        self
    }

    /// Sets whether files that end before their tensors do are packed instead
    /// of refused.
    #[must_use]
    pub fn allow_truncated(mut self, allow: bool) -> Self {
        self.allow_truncated = allow;
        self
    }

    /// Encodes one tensor, and computes its digests if the container has an
    /// integrity section.
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

    /// Adds the statistics of a tensor to its digests, if the options request
    /// statistics.
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

/// An encoded frame, with its digests if the container has an integrity
/// section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodedTensor {
    /// The bytes of the frame.
    pub frame: Vec<u8>,
    /// The digests, for
    /// [`ContainerBuilder::frame`](super::ContainerBuilder::frame).
    pub digests: Option<FrameDigests>,
}
