//! `ZXD1`: a tensor of floats stored as its difference from a base tensor of the
//! same dtype and length (docs/formats/zxd1.md).
//!
//! Elements are compared as integers that are ordered like their values. The
//! magnitude of a change depends on the exponent of the element and on its
//! group, which is usually a row; both select the table that codes it.

use alloc::format;
use alloc::vec::Vec;
#[cfg(all(feature = "plan", feature = "deltas"))]
use core::ops::Range;

use crate::bytes::part;
use crate::digest;
use crate::engine::Engine;
use crate::{Error, Result, Rule};

mod block;
mod context;
mod directory;
mod encode;
mod float_format;
mod head;
pub mod low_rank;
mod token;

#[cfg(feature = "deltas")]
pub(crate) use super::rans_blocks::BLOCK_BYTES;
#[cfg(all(feature = "plan", feature = "deltas"))]
pub(crate) use context::CONTEXTS;
pub use directory::{DifferencePlan, Directory};
#[cfg(feature = "deltas")]
pub(crate) use encode::BLOCK_ELEMENTS;
pub use encode::encode;
pub(crate) use encode::row_elements;
pub use head::{FIXED_BYTES, head_len_bytes};

use head::DifferenceHead;

/// The first bytes of a frame.
pub const MAGIC: [u8; 4] = *b"ZXD1";
const VERSION: u8 = 1;

/// A parsed frame.
#[derive(Debug, Clone)]
pub struct Difference<'a> {
    head: DifferenceHead<'a>,
    bytes: &'a [u8],
}

impl<'a> Difference<'a> {
    /// Parses a frame that fills `bytes` and checks everything that can be
    /// checked without decoding.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let head = DifferenceHead::parse(bytes)?;
        let len_bytes = head.frame_len_bytes();
        if len_bytes != bytes.len() as u64 {
            let detail = format!("a ZXD1 frame of {len_bytes} bytes in {}", bytes.len());
            let rule = match len_bytes > bytes.len() as u64 {
                true => Rule::Truncated,
                false => Rule::FrameTrailing,
            };
            let at = len_bytes.min(bytes.len() as u64);
            return Err(Error::malformed(rule, detail).at(at));
        }
        Ok(Self { head, bytes })
    }

    /// Returns the length in bytes of the base and of the result, which are
    /// equal.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.head.elements * self.head.element.len_bytes() as u64
    }

    /// Returns the first 16 bytes of the BLAKE3 digest of the base.
    #[must_use]
    pub fn base_digest(&self) -> [u8; 16] {
        self.head.base_digest
    }

    /// Returns the length of the head in bytes. A reader of ranges fetches the
    /// head before any block.
    #[must_use]
    pub fn head_len_bytes(&self) -> u64 {
        self.head.len_bytes
    }

    /// Restores the tensor from the base that the frame was made against.
    ///
    /// # Errors
    /// The frame is damaged, or `reference` has another length or digest than the base
    /// that the frame was made against.
    pub fn decode<E: Engine>(&self, engine: &E, reference: &[u8]) -> Result<Vec<u8>> {
        self.decode_from(engine, reference, None)
    }

    /// Decodes like [`Difference::decode`]. If `digest` is given, it is used as the
    /// digest of the base, which is then not computed. In that case, the caller must
    /// compare the digest of the result with the expected one, which shows whether the
    /// base was right.
    pub(crate) fn decode_from<E: Engine>(
        &self,
        engine: &E,
        reference: &[u8],
        digest: Option<[u8; 16]>,
    ) -> Result<Vec<u8>> {
        let wrong = |detail| Error::malformed(Rule::DeltaReference, detail);
        if reference.len() as u64 != self.len_bytes() {
            return Err(wrong(format!(
                "the delta was made against {} bytes, the base has {}",
                self.len_bytes(),
                reference.len()
            )));
        }
        let digest = digest.unwrap_or_else(|| short_digest(engine, reference));
        if digest != self.head.base_digest {
            return Err(wrong("the delta was made against another base".into()));
        }
        self.restore(engine, reference)
    }

    /// Decodes like [`Difference::decode`], without checking the base.
    fn restore<E: Engine>(&self, engine: &E, reference: &[u8]) -> Result<Vec<u8>> {
        let directory = Directory::new(&self.head)?;
        let plan = directory.plan(0..self.len_bytes());
        let stored = part(self.bytes, plan.stored());
        directory.decode(engine, &plan, stored, reference)
    }
}

#[cfg(all(feature = "plan", feature = "deltas"))]
impl<'a> Difference<'a> {
    pub(crate) fn head(&self) -> &DifferenceHead<'a> {
        &self.head
    }

    /// Compares every block with its checksum, and returns the ranges of its rANS part and
    /// of its raw bits in the frame.
    pub(crate) fn checked_blocks(&self) -> impl Iterator<Item = Result<[Range<u64>; 2]>> {
        self.head.blocks.iter().enumerate().map(|(number, block)| {
            let range = block.range();
            let middle = range.start + u64::from(block.rans_len_bytes);
            let stored = part(self.bytes, range.clone());
            block.check(number, stored, Rule::DifferenceBlockChecksum)?;
            Ok([range.start..middle, middle..range.end])
        })
    }
}

/// Returns the first 16 bytes of the digest of a tensor.
fn short_digest<E: Engine>(engine: &E, tensor: &[u8]) -> [u8; 16] {
    let digest = digest::of(engine, tensor);
    core::array::from_fn(|i| digest[i])
}

#[cfg(all(test, feature = "pure-encoder"))]
mod tests {
    use super::*;
    use crate::TensorRef;
    use crate::dtype::Dtype;
    use crate::frame::select::{Effort, EncodeOptions};
    use crate::pure::Pure;

    #[test]
    fn every_pattern_comes_back() {
        let options = EncodeOptions::new(Effort::Balanced);
        let words: Vec<u16> = (0..=u16::MAX).collect();
        for distance in [0, 1, 0x7FFF, 0x8000, 0xFFFF] {
            let base: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            let moved = words.iter().map(|w| w.wrapping_add(distance));
            let current: Vec<u8> = moved.flat_map(u16::to_le_bytes).collect();
            for dtype in [Dtype::Bf16, Dtype::F16, Dtype::F32] {
                let tensor = TensorRef::new(&current, dtype, &[256, 256]);
                let frame = encode(&Pure, tensor, &base, options).expect("floats");
                let difference = Difference::parse(&frame).expect("a frame");
                assert_eq!(difference.len_bytes(), 1 << 17);
                assert_eq!(difference.decode(&Pure, &base).expect("decodes"), current);
            }
        }
        let none = TensorRef::new(&[1; 4], Dtype::I32, &[1]);
        assert!(encode(&Pure, none, &[0; 4], options).is_none());
    }
}
