//! Elements whose order in the file is not row-major.

use alloc::vec::Vec;

use crate::bytes;
use crate::{Error, Result};

/// Returns the elements of an array in row-major order. `strides` contains the
/// distance in elements between neighbours along each dimension of `shape`, and
/// each element has `width` bytes.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) if an element lies outside
/// `stored`.
pub(crate) fn gather(
    stored: &[u8],
    shape: &[u64],
    strides: &[u64],
    width: usize,
) -> Result<Vec<u8>> {
    let outside = || Error::invalid_input("these are not the stored bytes of the array");
    let count = crate::tensor::element_count(shape).ok_or_else(outside)?;
    let len_bytes = count.checked_mul(width as u64).ok_or_else(outside)?;
    let mut out = bytes::buffer(len_bytes)?;
    // Dimensions of size 1 do not change the order.
    let dimensions: Vec<(u64, u64)> = shape.iter().copied().zip(strides.iter().copied()).collect();
    let dimensions: Vec<_> = dimensions
        .into_iter()
        .filter(|&(size, _)| size != 1)
        .collect();
    let mut position: Vec<u64> = dimensions.iter().map(|_| 0).collect();
    let mut at = 0u64;
    for out in out.chunks_exact_mut(width.max(1)) {
        let start = bytes::index(at).saturating_mul(width);
        let element = stored.get(start..).and_then(|rest| rest.get(..width));
        out.copy_from_slice(element.ok_or_else(outside)?);
        for (position, &(size, stride)) in position.iter_mut().zip(&dimensions).rev() {
            *position += 1;
            at = at.saturating_add(stride);
            if *position < size {
                break;
            }
            at = at.saturating_sub(size.saturating_mul(stride));
            *position = 0;
        }
    }
    Ok(out)
}

/// Returns the strides, in elements, of an array whose first dimension is the
/// fastest.
pub(crate) fn fortran_strides(shape: &[u64]) -> Vec<u64> {
    let mut stride = 1u64;
    let mut strides = Vec::new();
    for &size in shape {
        strides.push(stride);
        stride = stride.saturating_mul(size);
    }
    strides
}
