//! Decoding a tensor into a buffer of the caller's.

use alloc::format;

use super::{Contents, FileCatalog};
use crate::container::zstn::CheckedFrame;
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
    ///
    /// # Panics
    /// If there is no tensor of that number.
    pub fn decode_into<E: Engine>(
        &self,
        engine: &E,
        number: usize,
        stored: &[u8],
        base: Option<&[u8]>,
        out: &mut [u8],
    ) -> Result<()> {
        let tensor = &self.tensors[number];
        let Contents::Zstn(integrity, _) = &self.contents else {
            let decoded = self.decode_against(engine, number, stored, base)?;
            return copy(&tensor.name, &decoded, out);
        };
        self.check_stored(number, stored)?;
        check_len(&tensor.name, tensor.len_bytes(), out)?;
        let expected = integrity.as_ref().map(|integrity| (integrity, number));
        CheckedFrame::parse(stored, tensor.len_bytes(), expected)
            .and_then(|frame| frame.decode(engine, out))
            .map_err(|error| error.within(tensor.stored.start).tensor(&tensor.name))
    }
}

/// Copies the `decoded` bytes of the tensor called `name` to `out`.
pub fn copy(name: &str, decoded: &[u8], out: &mut [u8]) -> Result<()> {
    check_len(name, decoded.len() as u64, out)?;
    out.copy_from_slice(decoded);
    Ok(())
}

/// Refuses a buffer that does not hold exactly the tensor called `name`.
fn check_len(name: &str, len_bytes: u64, out: &[u8]) -> Result<()> {
    if out.len() as u64 == len_bytes {
        return Ok(());
    }
    let detail = format!(
        "the tensor has {len_bytes} bytes, the buffer to decode it into has {}",
        out.len()
    );
    Err(Error::invalid_input(detail).tensor(name))
}
