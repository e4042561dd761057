//! `Z4DL`: a buffer stored as its XOR with a reference of the same length
//! (docs/formats/z4ai-containers.md 3).

use alloc::format;
use alloc::vec::Vec;

use blake2::digest::consts::U16;
use blake2::{Blake2b, Digest};

use super::select::{self, EncodeOptions};
use super::{ContainedFrame, Edition};
use crate::bytes::{self, Cursor};
use crate::engine::{Engine, PackEngine};
use crate::{Error, Result, Rule, TensorRef, transform};

/// The first bytes of a delta.
pub const MAGIC: [u8; 4] = *b"Z4DL";
const VERSION: u8 = 2;

/// A delta whose head has been read.
#[derive(Debug, Clone)]
pub struct Delta<'a> {
    reference_len_bytes: u64,
    reference_digest: [u8; 16],
    inner: &'a [u8],
}

impl<'a> Delta<'a> {
    /// Parses the head. Like z4ai, it ignores the flags and the reserved field.
    pub fn parse(blob: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(blob);
        cursor.expect_magic(&MAGIC, Rule::DeltaMagic, "Z4DL delta")?;
        cursor.expect_version(VERSION, Rule::DeltaVersion, "Z4DL delta")?;
        cursor.take(3, "delta flags")?;
        let reference_len_bytes = cursor.u64("reference length")?;
        let reference_digest = cursor.array("reference digest")?;
        let inner = cursor.take(cursor.remaining() as u64, "inner frame")?;
        Ok(Self {
            reference_len_bytes,
            reference_digest,
            inner,
        })
    }

    /// Returns the length in bytes of the reference and of the result, which
    /// are equal.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.reference_len_bytes
    }

    /// Returns the bytes that contain the inner frame, which decodes to the XOR of the
    /// reference and the result.
    #[cfg(all(feature = "plan", feature = "deltas"))]
    pub(crate) fn inner(&self) -> &'a [u8] {
        self.inner
    }

    /// Checks everything that can be checked without decoding. Afterwards it is
    /// safe to allocate [`Delta::len_bytes`] bytes for the result.
    pub fn check(&self) -> Result<()> {
        self.frame().map(|_| ())
    }

    fn frame(&self) -> Result<ContainedFrame<'a>> {
        // Bytes after the frame are allowed (3.1).
        ContainedFrame::parse(self.inner, self.reference_len_bytes, Edition::Plain)
            .map_err(|error| error.within(HEAD_BYTES))
    }

    /// Restores the buffer from the reference that the delta was made against.
    ///
    /// # Errors
    /// The delta is damaged, or `reference` has another length or digest than
    /// the reference that the delta was made against.
    pub fn decode<E: Engine>(&self, engine: &E, reference: &[u8]) -> Result<Vec<u8>> {
        let wrong = |detail| Error::malformed(Rule::DeltaReference, detail);
        if reference.len() as u64 != self.reference_len_bytes {
            return Err(wrong(format!(
                "the delta was made against {} bytes, the base has {}",
                self.reference_len_bytes,
                reference.len()
            )));
        }
        if digest(reference) != self.reference_digest {
            return Err(wrong("the delta was made against another base".into()));
        }
        let frame = self.frame()?;
        let mut out = bytes::buffer(self.reference_len_bytes)?;
        frame.decode(engine, &mut out)?;
        transform::xor(&mut out, reference);
        Ok(out)
    }
}

const HEAD_BYTES: u64 = 32;

/// Encodes `current` as a delta against `reference`.
pub fn encode<E: PackEngine>(
    engine: &E,
    current: TensorRef,
    reference: &[u8],
    options: EncodeOptions,
) -> Result<Vec<u8>> {
    if current.bytes.len() != reference.len() {
        return Err(Error::invalid_input(format!(
            "a delta needs buffers of equal length, these have {} and {} bytes",
            current.bytes.len(),
            reference.len()
        )));
    }
    let mut difference = current.bytes.to_vec();
    transform::xor(&mut difference, reference);
    let mut out = head(|sink| {
        sink(reference);
        Ok::<_, Error>(())
    })?;
    // Other readers expect z4ai's own frames in a `Z4DL`, and the XOR of two
    // buffers is no lattice.
    let options = options.extended(false);
    out.extend_from_slice(&select::encode(
        engine,
        current.with_bytes(&difference),
        options,
    ));
    Ok(out)
}

/// Returns the bytes that precede the inner frame. `feed` calls its argument
/// with the consecutive blocks of the reference.
///
/// # Errors
/// The errors of `feed`, such as a failed read.
pub fn head<E>(feed: impl FnOnce(&mut dyn FnMut(&[u8])) -> Result<(), E>) -> Result<Vec<u8>, E> {
    let mut len_bytes = 0;
    let mut hasher = Blake2b::<U16>::new();
    feed(&mut |piece| {
        len_bytes += piece.len() as u64;
        hasher.update(piece);
    })?;
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&[VERSION, 0, 0, 0]);
    out.extend_from_slice(&len_bytes.to_le_bytes());
    out.extend_from_slice(&hasher.finalize());
    Ok(out)
}

/// Returns the BLAKE2b digest with an output length of 16 bytes, which is not a
/// prefix of a longer digest.
fn digest(reference: &[u8]) -> [u8; 16] {
    Blake2b::<U16>::digest(reference).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_of_nothing_is_the_documented_one() {
        let hex: String = digest(&[]).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "cae66941d9efbd404e4d88758ea67670");
    }
}
