//! Decoding of a tensor into a buffer that the caller provides.

use alloc::format;

use super::FileCatalog;
use crate::engine::Engine;
use crate::{Error, Result};

impl FileCatalog {
    /// Decodes tensor `number` into `out`, otherwise like
    /// [`FileCatalog::decode_against`]. The frames of a ZSTN file are decoded
    /// in place; tensors of other formats are decoded and then copied.
    ///
    /// # Errors
    /// The errors of [`FileCatalog::decode_against`], and
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if `out` does not have
    /// the length of the tensor. The content of `out` is unspecified after an
    /// error.
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

/// Fails unless `out` has the length of the tensor called `name`.
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
