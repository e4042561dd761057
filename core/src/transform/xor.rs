//! The XOR of two buffers (docs/formats/z4ai-containers.md 3.1), which is its
//! own inverse.

/// Replaces `bytes` by its XOR with `reference`.
///
/// # Panics
/// If the lengths differ.
pub fn apply(bytes: &mut [u8], reference: &[u8]) {
    assert_eq!(bytes.len(), reference.len());
    for (byte, other) in bytes.iter_mut().zip(reference) {
        *byte ^= other;
    }
}
