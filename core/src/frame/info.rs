//! The fields that every frame family has.

use super::numpy::{Extras, NumPy};
use crate::{Error, Result, Rule};

/// The fields that every frame family has.
#[derive(Debug, Clone)]
pub struct FrameInfo<'a> {
    numpy: Option<NumPy<'a>>,
    tail: &'a [u8],
    stored_len: usize,
    decoded_len_bytes: u64,
}

impl<'a> FrameInfo<'a> {
    /// Describes a frame of `stored_len` bytes whose body, which is the content
    /// without its tail, has `body_len_bytes` bytes.
    pub(super) fn new(extras: Extras<'a>, stored_len: usize, body_len_bytes: u64) -> Result<Self> {
        let Extras { numpy, tail } = extras;
        Ok(Self {
            numpy,
            tail,
            stored_len,
            decoded_len_bytes: decoded_len(body_len_bytes, 1, tail)?,
        })
    }

    /// Copies the tail to the end of `out` and returns the bytes before it,
    /// which the caller fills.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind) if the length of `out`
    /// differs from the decoded length.
    pub(super) fn start<'o>(&self, out: &'o mut [u8]) -> Result<&'o mut [u8]> {
        if out.len() as u64 != self.decoded_len_bytes {
            return Err(Error::invalid_input(
                "the buffer is not as long as the frame's content",
            ));
        }
        let (body, tail) = out.split_at_mut(out.len() - self.tail.len());
        tail.copy_from_slice(self.tail);
        Ok(body)
    }

    /// Returns NumPy's description of the array, if the frame has one.
    #[must_use]
    pub fn numpy(&self) -> Option<&NumPy<'a>> {
        self.numpy.as_ref()
    }

    /// Returns the bytes after the last whole element.
    #[must_use]
    pub fn tail(&self) -> &'a [u8] {
        self.tail
    }

    /// Returns the length of the frame in bytes.
    #[must_use]
    pub fn stored_len(&self) -> usize {
        self.stored_len
    }

    /// Returns the length of the decoded content in bytes.
    #[must_use]
    pub fn decoded_len_bytes(&self) -> u64 {
        self.decoded_len_bytes
    }
}

/// Returns the length of `elements` elements in bytes.
pub(super) fn body_len(elements: u64, item_bytes: u64) -> Result<u64> {
    decoded_len(elements, item_bytes, &[])
}

/// Returns the length of `elements` elements followed by `tail`, in bytes.
pub(crate) fn decoded_len(elements: u64, item_bytes: u64, tail: &[u8]) -> Result<u64> {
    elements
        .checked_mul(item_bytes)
        .and_then(|body| body.checked_add(tail.len() as u64))
        .ok_or_else(|| {
            Error::malformed(
                Rule::FramePlaneLength,
                "the frame decodes to over 2^64 bytes",
            )
        })
}
