//! Decoding a tensor into a buffer of the caller's.

use alloc::format;

use super::FileCatalog;
use crate::engine::Engine;
use crate::{Error, Result};

impl FileCatalog {
    /// Decodes tensor `number` as [`FileCatalog::decode_against`] does, into
    /// `out`. The frames of a ZSTN file are decoded in place; other tensors
    /// are decoded first and then copied.
    ///
    /// # Errors
    /// As [`FileCatalog::decode_against`], and
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if `out` is not exactly
    /// as long as the tensor. `out` may hold anything after an error.
    pub fn decode_into<E: Engine>(
        &self,
        engine: &E,
        number: usize,
        stored: &[u8],
        base: Option<&[u8]>,
        out: &mut [u8],
    ) -> Result<()> {
        let stored = self.stored(number, stored, base)?;
        self.contents.decode_into(engine, stored, out)
    }
}

/// Copies the `decoded` bytes of the tensor called `name` to `out`.
pub fn copy(name: &str, decoded: &[u8], out: &mut [u8]) -> Result<()> {
    check_len(name, decoded.len() as u64, out)?;
    out.copy_from_slice(decoded);
    Ok(())
}

/// Refuses a buffer that does not hold exactly the tensor called `name`.
pub(super) fn check_len(name: &str, len_bytes: u64, out: &[u8]) -> Result<()> {
    if out.len() as u64 == len_bytes {
        return Ok(());
    }
    let detail = format!(
        "the tensor has {len_bytes} bytes, the buffer to decode it into has {}",
        out.len()
    );
    Err(Error::invalid_input(detail).tensor(name))
}
