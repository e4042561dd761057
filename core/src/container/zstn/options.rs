//! The options for writing a container, among them the SHA-256 of the original
//! file and its source (docs/formats/zstn-integrity.md 3).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use sha2::{Digest as _, Sha256};

use super::integrity::FrameDigests;
use crate::engine::PackEngine;
use crate::frame::select::{self, Effort, EncodeOptions};
use crate::{Error, Result, TensorRef};

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

/// The source of the SHA-256 of the original file, which the integrity section
/// stores.
///
/// A SHA-256 can only be computed sequentially over all bytes. A caller that
/// knows it, for example because Git LFS names the file by it, can save the
/// packer that work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OriginalSha256 {
    /// The packer computes the SHA-256.
    #[default]
    Computed,
    /// The caller states the SHA-256 and has not compared it with the file. The
    /// container states that, and the claim is checked whenever the whole file
    /// is restored. A container with a single frame cannot store a claim, so
    /// the packer checks it at once.
    Claimed([u8; 32]),
    /// The caller states the SHA-256 and promises to compare it with the
    /// restored file before the container is used. The container is then the
    /// same as with [`OriginalSha256::Computed`].
    Checked([u8; 32]),
}

impl OriginalSha256 {
    /// Returns the digest, unless the packer computes it.
    #[must_use]
    pub fn known(&self) -> Option<&[u8; 32]> {
        match self {
            Self::Computed => None,
            Self::Claimed(sha256) | Self::Checked(sha256) => Some(sha256),
        }
    }

    /// Compares a claim with the file, given as consecutive pieces.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind) for a wrong claim.
    pub(super) fn check_claim<'a>(self, pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<()> {
        let Self::Claimed(claimed) = self else {
            return Ok(());
        };
        let mut sha256 = Sha256::new();
        for piece in pieces {
            sha256.update(piece);
        }
        let found: [u8; 32] = sha256.finalize().into();
        if found == claimed {
            return Ok(());
        }
        Err(Error::invalid_input(format!(
            "the file has the SHA-256 {}, not {}, which was given for it: pack the right file, or \
             give its own SHA-256 or none",
            hex(&found),
            hex(&claimed)
        )))
    }
}

/// Parses a SHA-256 of 64 hexadecimal digits.
///
/// # Errors
/// [`ErrorKind::InvalidInput`](crate::ErrorKind) for any other text.
pub fn parse_sha256(text: &str) -> Result<[u8; 32]> {
    let value = |digit: u8| char::from(digit).to_digit(16);
    let mut sha256 = [0; 32];
    let mut is_right = text.len() == 64;
    for (byte, pair) in sha256.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let pair = value(pair[0]).zip(value(pair[1]));
        let parsed = pair.and_then(|(high, low)| u8::try_from(high << 4 | low).ok());
        is_right &= parsed.is_some();
        *byte = parsed.unwrap_or_default();
    }
    match is_right {
        true => Ok(sha256),
        false => Err(Error::invalid_input(
            "a SHA-256 has 64 hexadecimal digits, as in the `oid` of a Git LFS pointer after \
             `sha256:`",
        )),
    }
}

/// Returns the digest as lower-case hexadecimal digits.
pub(super) fn hex(digest: &[u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
