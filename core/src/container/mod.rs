//! File formats that hold many tensors: encoding and decoding.
//!
//! These modules plan and check; they never read or write a file themselves.

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use crate::bytes::{index, part};
use crate::limits::HEAD_LEN_BYTES;
use crate::{Error, Result};

pub mod foreign;
pub mod model_delta;
pub mod safetensors;
mod tagged;
pub mod zstn;

/// The offset of the byte that states the version of a ZSTN or Z4DM file.
pub const VERSION_OFFSET_BYTES: u64 = 4;

/// The bytes read so far from the beginning of a file, which need not be read
/// again.
#[derive(Debug)]
struct FileHead {
    len_bytes: u64,
    known: Vec<u8>,
}

impl FileHead {
    /// Creates an empty head for a file of `len_bytes`.
    pub fn new(len_bytes: u64) -> Self {
        Self {
            len_bytes,
            known: Vec::new(),
        }
    }

    /// Returns the length of the file in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns the bytes read so far.
    pub fn known(&self) -> &[u8] {
        &self.known
    }

    /// Returns the range to read first.
    pub fn first(&self) -> Range<u64> {
        0..self.len_bytes.min(HEAD_LEN_BYTES)
    }

    /// Adds the bytes that begin at offset `from`, unless the head already
    /// contains them.
    pub fn extend(&mut self, from: u64, bytes: &[u8]) {
        if self.known.len() < index(from) + bytes.len() {
            self.known.truncate(index(from));
            self.known.extend_from_slice(bytes);
        }
    }

    /// Returns the last bytes of `wanted` that have not been read; the range
    /// may be empty.
    pub fn missing(&self, wanted: &Range<u64>) -> Range<u64> {
        let known = self.known.len() as u64;
        wanted.start.max(known).min(wanted.end)..wanted.end
    }

    /// Returns the bytes of `wanted`, given the bytes of the range that
    /// [`FileHead::missing`] returns for it. The buffer of owned bytes is
    /// reused.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if `bytes` does not
    /// have the length of the missing range.
    pub fn complete<'b>(&self, wanted: &Range<u64>, bytes: Cow<'b, [u8]>) -> Result<Cow<'b, [u8]>> {
        let missing = self.missing(wanted);
        if bytes.len() as u64 != missing.end - missing.start {
            return Err(Error::invalid_input(format!(
                "{} bytes were supplied where {} are needed",
                bytes.len(),
                missing.end - missing.start
            )));
        }
        if missing.start == wanted.start {
            return Ok(bytes);
        }
        let known = part(&self.known, wanted.start..missing.start);
        let mut whole = bytes.into_owned();
        whole.reserve_exact(known.len());
        whole.splice(0..0, known.iter().copied());
        Ok(whole.into())
    }
}
