//! A frame of a container, and what the file tells of it.

use super::integrity::Integrity;
use crate::Result;
use crate::engine::Engine;
use crate::frame::Stored;

/// A frame whose fields are consistent, to be decoded no other way than with a
/// look at the checksum of its bytes and the digest of its tensor
/// (docs/formats/zstn-integrity.md 4). Offsets in errors count from its start.
#[derive(Debug, Clone)]
pub struct CheckedFrame<'a> {
    bytes: &'a [u8],
    stored: Stored<'a>,
    expected: Option<(&'a Integrity, usize)>,
}

impl<'a> CheckedFrame<'a> {
    /// Reads the frame `bytes` of a tensor of `len_bytes`. `expected` is the
    /// file's integrity section, if it has one, with the number of the
    /// tensor's record.
    ///
    /// # Panics
    /// If there is no record of that number.
    pub fn parse(
        bytes: &'a [u8],
        len_bytes: u64,
        expected: Option<(&'a Integrity, usize)>,
    ) -> Result<Self> {
        let damaged =
            |(integrity, number): (&Integrity, _)| integrity.check_stored(number, bytes).err();
        let stored = Stored::parse(bytes, len_bytes)
            // That the bytes are damaged says more than what is wrong with them.
            .map_err(|error| expected.and_then(damaged).unwrap_or(error))?;
        Ok(Self {
            bytes,
            stored,
            expected,
        })
    }

    /// Decodes into `out`, which is as long as the tensor.
    pub fn decode<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
        let Some((integrity, number)) = self.expected else {
            return self.stored.decode(engine, out);
        };
        // Decoders need nobody's word for what they read.
        let (checked, decoded) = engine.join_over(
            out.len(),
            || integrity.check_stored(number, self.bytes),
            || self.stored.decode(engine, out),
        );
        checked.and(decoded)?;
        integrity.check_tensor(engine, number, out)
    }
}
