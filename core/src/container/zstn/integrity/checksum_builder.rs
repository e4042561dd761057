//! What is summed up while a file is packed.

use alloc::vec::Vec;

use sha2::{Digest as _, Sha256};

use super::{FileDigest, checksum};
use crate::container::zstn::rows::BlockTable;
use crate::digest::{self, Digest};
use crate::engine::Engine;

/// Of a frame and the tensor it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameDigests {
    /// [`checksum`] of the frame as it is stored.
    pub stored: u64,
    /// Of the tensor.
    pub tensor: Digest,
    /// Bytes of the [`BlockTable`], none for a frame without.
    pub table: Vec<u8>,
}

impl FrameDigests {
    /// Those of a tensor and its frame in memory.
    #[must_use]
    pub fn of<E: Engine>(engine: &E, tensor: &[u8], frame: &[u8]) -> Self {
        let digest = || digest::of(engine, tensor);
        let (tensor, (stored, table)) =
            engine.join_over(tensor.len(), digest, || of_frame(engine, frame));
        Self {
            stored,
            tensor,
            table,
        }
    }

    /// As [`FrameDigests::of`], with the digest of the tensor.
    #[must_use]
    pub fn with_digest<E: Engine>(engine: &E, tensor: Digest, frame: &[u8]) -> Self {
        let (stored, table) = of_frame(engine, frame);
        Self {
            stored,
            tensor,
            table,
        }
    }
}

/// [`FrameDigests::stored`] and [`FrameDigests::table`].
fn of_frame<E: Engine>(engine: &E, frame: &[u8]) -> (u64, Vec<u8>) {
    engine.join_over(frame.len(), || checksum([frame]), || table(frame))
}

fn table(frame: &[u8]) -> Vec<u8> {
    let table = BlockTable::of(frame).as_ref().map(BlockTable::to_bytes);
    table.unwrap_or_default()
}

/// Goes over a file in step with the [`Writer`](crate::container::zstn::Writer)
/// that packs it.
#[derive(Debug, Clone)]
pub struct ChecksumBuilder {
    sha256: Sha256,
    len_bytes: u64,
    pub(in crate::container::zstn) frames: Vec<FrameDigests>,
}

impl ChecksumBuilder {
    /// Starts with the header of the original file.
    #[must_use]
    pub fn new(header: &[u8]) -> Self {
        let mut sums = Self {
            sha256: Sha256::new(),
            len_bytes: 0,
            frames: Vec::new(),
        };
        sums.data(&(header.len() as u64).to_le_bytes());
        sums.data(header);
        sums
    }

    /// The next bytes of the original's data, tied tensors included.
    pub fn data(&mut self, bytes: &[u8]) {
        self.sha256.update(bytes);
        self.len_bytes += bytes.len() as u64;
    }

    /// The next frame, in the order of
    /// [`Writer::frame`](crate::container::zstn::Writer::frame).
    pub fn frame(&mut self, sums: FrameDigests) {
        self.frames.push(sums);
    }

    pub(in crate::container::zstn) fn file(&self) -> FileDigest {
        FileDigest {
            len_bytes: self.len_bytes,
            sha256: self.sha256.clone().finalize().into(),
        }
    }
}
