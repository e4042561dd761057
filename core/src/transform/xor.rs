//! Byte by byte difference of two buffers
//! (docs/formats/z4ai-containers.md 3.1): its own inverse.

/// Turns `bytes` into its difference from `reference`, or back.
///
/// # Panics
/// If the lengths differ.
pub fn apply(bytes: &mut [u8], reference: &[u8]) {
    assert_eq!(bytes.len(), reference.len());
    for (byte, other) in bytes.iter_mut().zip(reference) {
        *byte ^= other;
    }
}
