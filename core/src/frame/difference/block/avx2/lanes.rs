//! Loads and stores of vectors, and table lookups.

use core::arch::x86_64::{
    __m128i, __m256i, _mm_set_epi64x, _mm256_broadcastsi128_si256, _mm256_extract_epi64,
    _mm256_or_si256, _mm256_set1_epi16, _mm256_setr_epi16, _mm256_setr_epi64x, _mm256_shuffle_epi8,
    _mm256_slli_epi16,
};

/// Looks up a low and a high byte for the low byte of each 16-bit number, which
/// must be below 16 or have its top bit set. In the latter case the result is
/// 0. The high bytes of the numbers are ignored.
#[inline]
#[target_feature(enable = "avx2")]
pub fn look_up(low: __m256i, high: __m256i, numbers: __m256i) -> __m256i {
    let for_low = _mm256_or_si256(numbers, _mm256_set1_epi16(i16::MIN));
    let for_high = _mm256_or_si256(_mm256_slli_epi16::<8>(numbers), _mm256_set1_epi16(0x80));
    _mm256_or_si256(
        _mm256_shuffle_epi8(low, for_low),
        _mm256_shuffle_epi8(high, for_high),
    )
}

/// Loads a table of 16 bytes into both halves of a vector.
#[inline]
#[target_feature(enable = "avx2")]
pub fn twice(table: &[u8; 16]) -> __m256i {
    _mm256_broadcastsi128_si256(sixteen(table))
}

/// Loads 16 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub fn sixteen(bytes: &[u8; 16]) -> __m128i {
    let (words, _) = bytes.as_chunks::<8>();
    _mm_set_epi64x(i64::from_le_bytes(words[1]), i64::from_le_bytes(words[0]))
}

/// Loads 32 bytes into a vector.
#[inline]
#[target_feature(enable = "avx2")]
pub fn bytes(bytes: &[u8; 32]) -> __m256i {
    let (words, _) = bytes.as_chunks::<8>();
    let word = |number: usize| i64::from_le_bytes(words[number]);
    _mm256_setr_epi64x(word(0), word(1), word(2), word(3))
}

/// Loads 16 numbers into 16-bit lanes.
#[inline]
#[target_feature(enable = "avx2")]
pub fn words(numbers: &[u16; 16]) -> __m256i {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = numbers.map(u16::cast_signed);
    _mm256_setr_epi16(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
}

/// Returns the 64-bit lanes.
#[inline]
#[target_feature(enable = "avx2")]
pub fn quarters_of(vector: __m256i) -> [u64; 4] {
    [
        _mm256_extract_epi64::<0>(vector),
        _mm256_extract_epi64::<1>(vector),
        _mm256_extract_epi64::<2>(vector),
        _mm256_extract_epi64::<3>(vector),
    ]
    .map(i64::cast_unsigned)
}

/// Returns the bytes of a vector, the lowest lane first.
#[inline]
#[target_feature(enable = "avx2")]
pub fn bytes_of(vector: __m256i) -> [u8; 32] {
    let mut out = [0; 32];
    let (words, _) = out.as_chunks_mut::<8>();
    for (out, word) in words.iter_mut().zip(quarters_of(vector)) {
        *out = word.to_le_bytes();
    }
    out
}

/// Returns the 16-bit lanes.
#[inline]
#[target_feature(enable = "avx2")]
pub fn words_of(vector: __m256i) -> [u16; 16] {
    let bytes = bytes_of(vector);
    core::array::from_fn(|i| u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]))
}

/// Returns the 32-bit lanes.
#[inline]
#[target_feature(enable = "avx2")]
pub fn singles_of(vector: __m256i) -> [u64; 8] {
    let bytes = bytes_of(vector);
    core::array::from_fn(|i| {
        let (words, _) = bytes.as_chunks::<4>();
        u32::from_le_bytes(words[i]).into()
    })
}
