//! Loads and stores of vectors.

use core::arch::wasm32::{u16x8, u64x2, u64x2_extract_lane, v128};

/// Loads 16 bytes into a vector.
#[inline(always)]
pub fn bytes(bytes: &[u8; 16]) -> v128 {
    let (words, _) = bytes.as_chunks::<8>();
    u64x2(u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]))
}

/// Loads eight numbers into 16-bit lanes.
#[inline(always)]
pub fn words(&[a, b, c, d, e, f, g, h]: &[u16; 8]) -> v128 {
    u16x8(a, b, c, d, e, f, g, h)
}

/// Returns the bytes of a vector, the lowest lane first.
#[inline(always)]
pub fn bytes_of(vector: v128) -> [u8; 16] {
    let mut out = [0; 16];
    let (words, _) = out.as_chunks_mut::<8>();
    words[0] = u64x2_extract_lane::<0>(vector).to_le_bytes();
    words[1] = u64x2_extract_lane::<1>(vector).to_le_bytes();
    out
}

/// Returns the 16-bit lanes.
#[inline(always)]
pub fn words_of(vector: v128) -> [u16; 8] {
    let bytes = bytes_of(vector);
    core::array::from_fn(|i| u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]))
}
