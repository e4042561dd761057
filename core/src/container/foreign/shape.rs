//! The number of elements of a shape in files of other projects.

/// The largest number of elements, and of their bytes: 2^63 − 1.
pub(super) const SIZE: u64 = i64::MAX as u64;

/// Returns the number of elements, or `None` if the product of the sizes that
/// are not zero exceeds [`SIZE`].
pub(super) fn element_count(shape: &[u64]) -> Option<u64> {
    let mut sizes = shape.iter().filter(|size| **size != 0);
    let product = sizes.try_fold(1u64, |product, size| product.checked_mul(*size))?;
    let count = if shape.contains(&0) { 0 } else { product };
    (product <= SIZE).then_some(count)
}
