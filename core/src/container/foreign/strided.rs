//! Elements in an order other than row-major.

use alloc::vec::Vec;

use crate::tensor::element_count;
use crate::{Error, Result, bytes};

/// Copies elements of `width` bytes to row-major order. `steps` states the distance
/// between neighbours along each dimension of `shape`, in elements. The caller has
/// checked that the length of the result is justified.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) if an element lies outside
/// `elements`.
pub(super) fn gathered(
    elements: &[u8],
    shape: &[u64],
    steps: &[u64],
    width: usize,
) -> Result<Vec<u8>> {
    let outside = || Error::invalid_input("these are not the stored bytes of the tensor");
    let count = element_count(shape).and_then(|count| count.checked_mul(width as u64));
    let mut out = bytes::buffer(count.ok_or_else(outside)?)?;
    let mut position: Vec<u64> = shape.iter().map(|_| 0).collect();
    let mut at = 0u64;
    for out in out.chunks_exact_mut(width) {
        let start = bytes::index(at).checked_mul(width);
        let element = start.and_then(|start| elements.get(start..)?.get(..width));
        out.copy_from_slice(element.ok_or_else(outside)?);
        for ((position, size), step) in position.iter_mut().zip(shape).zip(steps).rev() {
            *position += 1;
            at = at.wrapping_add(*step);
            if *position < *size {
                break;
            }
            at = at.wrapping_sub(size.wrapping_mul(*step));
            *position = 0;
        }
    }
    Ok(out)
}
