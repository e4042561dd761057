//! Computes the checksums and digests of a file while it is packed.

use alloc::vec::Vec;

use sha2::{Digest as _, Sha256};

use super::{EncodedStatistics, FileDigest, checksum};
use crate::TensorRef;
use crate::container::zstn::OriginalSha256;
use crate::container::zstn::rows::FrameTable;
use crate::digest::{self, Digest};
use crate::engine::Engine;

/// The checksum, digest, block table and statistics of a frame and its tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameDigests {
    /// The [`checksum`] of the stored frame.
    pub stored: u64,
    /// The BLAKE3 of the tensor.
    pub tensor: Digest,
    /// The bytes of the [`FrameTable`]; empty for a frame without one.
    pub table: Vec<u8>,
    /// The statistics of the tensor; `None` if the tensor has none or the file
    /// stores none.
    pub statistics: Option<EncodedStatistics>,
}

impl FrameDigests {
    /// Computes the digests of a tensor and its frame, without statistics.
    #[must_use]
    pub fn of<E: Engine>(engine: &E, tensor: &[u8], frame: &[u8]) -> Self {
        let digest = || digest::of(engine, tensor);
        let (tensor, (stored, table)) =
            engine.join_over(tensor.len(), digest, || of_frame(engine, frame));
        Self {
            stored,
            tensor,
            table,
            statistics: None,
        }
    }

    /// Adds the statistics of the tensor.
    #[must_use]
    pub(crate) fn with_statistics<E: Engine>(mut self, engine: &E, tensor: TensorRef) -> Self {
        self.statistics = EncodedStatistics::of(engine, tensor);
        self
    }

    /// Computes the digests of a frame, given the digest of its tensor.
    #[must_use]
    pub(crate) fn with_digest<E: Engine>(engine: &E, tensor: Digest, frame: &[u8]) -> Self {
        let (stored, table) = of_frame(engine, frame);
        Self {
            stored,
            tensor,
            table,
            statistics: None,
        }
    }
}

/// Computes [`FrameDigests::stored`] and [`FrameDigests::table`].
fn of_frame<E: Engine>(engine: &E, frame: &[u8]) -> (u64, Vec<u8>) {
    engine.join_over(frame.len(), || checksum([frame]), || table(frame))
}

fn table(frame: &[u8]) -> Vec<u8> {
    let table = FrameTable::of(frame).as_ref().map(FrameTable::to_bytes);
    table.unwrap_or_default()
}

/// The SHA-256 of the part of the original file that has been added. It is separate from
/// the other checksums so that another thread can compute it.
#[derive(Debug, Clone, Default)]
pub struct OriginalHash {
    sha256: Sha256,
    len_bytes: u64,
}

impl OriginalHash {
    /// Adds the next bytes of the original file.
    pub fn update(&mut self, bytes: &[u8]) {
        self.sha256.update(bytes);
        self.len_bytes += bytes.len() as u64;
    }

    /// Returns the SHA-256 of the bytes that have been added.
    #[must_use]
    pub fn finish(self) -> [u8; 32] {
        self.sha256.finalize().into()
    }
}

/// Collects the checksums of a file while it is packed.
#[derive(Debug, Clone)]
pub struct ChecksumBuilder {
    original: OriginalSha256,
    /// The hash of the bytes added so far, unless the digest is known in
    /// advance.
    hash: OriginalHash,
    pub(in crate::container::zstn) frames: Vec<FrameDigests>,
}

impl ChecksumBuilder {
    /// Starts with `head`, the bytes of the original file before its data.
    /// `original` determines the source of the SHA-256 of that file.
    #[must_use]
    pub fn new(head: &[u8], original: OriginalSha256) -> Self {
        let mut sums = Self {
            original,
            hash: OriginalHash::default(),
            frames: Vec::new(),
        };
        sums.data(head);
        sums
    }

    /// Returns whether [`ChecksumBuilder::data`] must be called, because the
    /// SHA-256 of the original is not known in advance.
    #[must_use]
    pub(crate) fn needs_data(&self) -> bool {
        self.original.known().is_none()
    }

    /// Adds the next bytes of the original's data, including the bytes of
    /// aliases.
    pub fn data(&mut self, bytes: &[u8]) {
        if self.needs_data() {
            self.hash.update(bytes);
        }
    }

    /// Takes the hash of the bytes added so far, unless the SHA-256 is known in
    /// advance. The caller adds the remaining bytes and passes the hash back to
    /// [`ChecksumBuilder::set_hash`].
    pub fn take_hash(&mut self) -> Option<OriginalHash> {
        self.needs_data().then(|| core::mem::take(&mut self.hash))
    }

    /// Sets the hash of the bytes added so far.
    pub fn set_hash(&mut self, hash: OriginalHash) {
        self.hash = hash;
    }

    /// Adds the next frame.
    pub fn frame(&mut self, sums: FrameDigests) {
        self.frames.push(sums);
    }

    /// Returns the digest of the original file of `len_bytes`, or `None` if it
    /// must be computed and bytes are missing.
    pub(in crate::container::zstn) fn file(&self, len_bytes: u64) -> Option<FileDigest> {
        let sha256 = match self.original.known() {
            Some(sha256) => *sha256,
            None if self.hash.len_bytes == len_bytes => self.hash.sha256.clone().finalize().into(),
            None => return None,
        };
        Some(FileDigest {
            len_bytes,
            sha256,
            is_claimed: matches!(self.original, OriginalSha256::Claimed(_)),
        })
    }
}
