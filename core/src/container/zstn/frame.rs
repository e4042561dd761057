//! A frame of a container, with its checksum and the digest of its tensor.

use super::integrity::Integrity;
use crate::Result;
use crate::engine::Engine;
use crate::frame::{Edition, Stored};

/// A frame whose fields are consistent. If the file has checksums and digests,
/// decoding compares the checksum of the frame and, depending on
/// [`Verify`](super::integrity::Verify), the digest of the tensor
/// (docs/formats/zstn-integrity.md 4). Offsets in errors are relative to the
/// start of the frame.
#[derive(Debug, Clone)]
pub struct CheckedFrame<'a> {
    bytes: &'a [u8],
    stored: Stored<'a>,
    expected: Option<(&'a Integrity, usize)>,
}

impl<'a> CheckedFrame<'a> {
    /// Parses the frame `bytes` of a tensor of `len_bytes` in a file of this
    /// `edition`. `expected` contains the file's integrity section, if it has
    /// one, and the number of the tensor's record.
    pub fn parse(
        bytes: &'a [u8],
        len_bytes: u64,
        edition: Edition,
        expected: Option<(&'a Integrity, usize)>,
    ) -> Result<Self> {
        let damaged =
            |(integrity, number): (&Integrity, _)| integrity.check_stored(number, bytes).err();
        let stored = Stored::parse(bytes, len_bytes, edition)
            // A wrong checksum is a better explanation than the error that
            // follows from it.
            .map_err(|error| expected.and_then(damaged).unwrap_or(error))?;
        Ok(Self {
            bytes,
            stored,
            expected,
        })
    }

    /// Decodes the frame into `out`, which must have the length of the tensor.
    pub fn decode<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
        let Some((integrity, number)) = self.expected else {
            return self.stored.decode(engine, out);
        };
        // Decoding damaged bytes is safe, so the checksum can be computed at
        // the same time.
        let (checked, decoded) = engine.join_over(
            out.len(),
            || integrity.check_stored(number, self.bytes),
            || self.stored.decode(engine, out),
        );
        checked.and(decoded)?;
        integrity.check_tensor(engine, number, out)
    }
}
