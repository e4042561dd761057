//! Packs and unpacks flat codes of seven bits, 32 symbols at once, with AVX2.
//! Such codes occur in the mantissas of bfloat16 and the upper mantissa bytes of
//! float32.

use core::arch::x86_64::{
    __m256i, _mm256_and_si256, _mm256_extract_epi64, _mm256_madd_epi16, _mm256_maddubs_epi16,
    _mm256_mullo_epi16, _mm256_or_si256, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_setr_epi64x,
    _mm256_shuffle_epi8, _mm256_slli_epi64, _mm256_srli_epi16, _mm256_srli_epi64,
};

use crate::avx2::call;

/// Number of symbols that are coded at once, in groups of eight that fill seven
/// bytes.
pub(super) const SYMBOLS: usize = 32;
/// Length in bytes of the codes of [`SYMBOLS`] symbols.
pub(super) const CODED_BYTES: usize = 28;
/// Number of bytes that are read or written for [`SYMBOLS`] symbols. Those after the
/// first [`CODED_BYTES`] are not used.
pub(super) const WINDOW_BYTES: usize = 30;

/// Packs symbols below 128 into seven bits each, starting with the last symbol,
/// until `out` has no room for another window. Returns the number of packed
/// items of `symbols`, counted from the last one, or `None` if the processor
/// does not support AVX2.
pub(super) fn pack(symbols: &[[u8; SYMBOLS]], out: &mut [u8]) -> Option<usize> {
    Some(call!(pack_all, symbols, out; else return None))
}

/// Unpacks the result of [`pack`] until `bytes` has no further window. Returns
/// the number of unpacked items of `symbols`, counted from the last one, which
/// is 0 if the processor does not support AVX2.
pub(super) fn unpack(bytes: &[u8], symbols: &mut [[u8; SYMBOLS]]) -> usize {
    call!(unpack_all, bytes, symbols; else 0)
}

#[target_feature(enable = "avx2")]
fn pack_all(symbols: &[[u8; SYMBOLS]], out: &mut [u8]) -> usize {
    // Selects seven bytes of the second word of each half, then seven of the
    // first.
    let places = halves(&[8, 9, 10, 11, 12, 13, 14, 0, 1, 2, 3, 4, 5, 6, 255, 255]);
    let mut done = 0;
    for symbols in symbols.iter().rev() {
        let Some(window) = out
            .get_mut(done * CODED_BYTES..)
            .and_then(|rest| rest.first_chunk_mut::<WINDOW_BYTES>())
        else {
            break;
        };
        // At each step, the first of two neighbours goes above the second.
        let pairs = _mm256_maddubs_epi16(_mm256_set1_epi16(0x0180), vector(symbols));
        let fours = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x0001_4000));
        let eights = _mm256_or_si256(
            _mm256_srli_epi64::<4>(_mm256_slli_epi64::<32>(fours)),
            _mm256_srli_epi64::<32>(fours),
        );
        let [a, b, c, d] = words(_mm256_shuffle_epi8(eights, places));
        window[..8].copy_from_slice(&c);
        window[8..16].copy_from_slice(&d);
        window[14..22].copy_from_slice(&a);
        window[22..].copy_from_slice(&b);
        done += 1;
    }
    done
}

#[target_feature(enable = "avx2")]
fn unpack_all(bytes: &[u8], symbols: &mut [[u8; SYMBOLS]]) -> usize {
    // The two bytes that contain each symbol, for even and for odd positions,
    // and the factors that move the symbol to the top of them.
    let even = halves(&[13, 14, 11, 12, 9, 10, 7, 8, 6, 7, 4, 5, 2, 3, 0, 1]);
    let odd = halves(&[12, 13, 10, 11, 8, 9, 7, 8, 5, 6, 3, 4, 1, 2, 0, 1]);
    let even_factors = factors([8, 6, 4, 2]);
    let odd_factors = factors([7, 5, 3, 9]);
    let odd_mask = _mm256_set1_epi16(0x7F00);
    let mut done = 0;
    for symbols in symbols.iter_mut().rev() {
        let Some(window) = bytes
            .get(done * CODED_BYTES..)
            .and_then(|rest| rest.first_chunk::<WINDOW_BYTES>())
        else {
            break;
        };
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&window[at..at + 8]);
            word
        };
        let window = vector_of([word(14), word(22), word(0), word(8)]);
        let even = _mm256_mullo_epi16(_mm256_shuffle_epi8(window, even), even_factors);
        let odd = _mm256_mullo_epi16(_mm256_shuffle_epi8(window, odd), odd_factors);
        let both = _mm256_or_si256(
            _mm256_srli_epi16::<9>(even),
            _mm256_and_si256(_mm256_srli_epi16::<1>(odd), odd_mask),
        );
        let (groups, _) = symbols.as_chunks_mut();
        for (group, word) in groups.iter_mut().zip(words(both)) {
            *group = word;
        }
        done += 1;
    }
    done
}

/// Returns a vector that has these bytes in both halves.
#[inline]
#[target_feature(enable = "avx2")]
fn halves(half: &[u8; 16]) -> __m256i {
    let mut bytes = [0; SYMBOLS];
    bytes[..16].copy_from_slice(half);
    bytes[16..].copy_from_slice(half);
    vector(&bytes)
}

/// Returns a vector of 16-bit powers of two, with the same four in every 64-bit
/// word.
#[inline]
#[target_feature(enable = "avx2")]
fn factors(shifts: [u32; 4]) -> __m256i {
    let word = (0..)
        .zip(shifts)
        .fold(0, |word, (k, shift)| word | 1i64 << (16 * k + shift));
    _mm256_setr_epi64x(word, word, word, word)
}

#[inline]
#[target_feature(enable = "avx2")]
fn vector(bytes: &[u8; SYMBOLS]) -> __m256i {
    let (words, _) = bytes.as_chunks();
    vector_of([words[0], words[1], words[2], words[3]])
}

#[inline]
#[target_feature(enable = "avx2")]
fn vector_of(words: [[u8; 8]; 4]) -> __m256i {
    let [a, b, c, d] = words.map(i64::from_le_bytes);
    _mm256_setr_epi64x(a, b, c, d)
}

#[inline]
#[target_feature(enable = "avx2")]
fn words(vector: __m256i) -> [[u8; 8]; 4] {
    [
        _mm256_extract_epi64::<0>(vector).to_le_bytes(),
        _mm256_extract_epi64::<1>(vector).to_le_bytes(),
        _mm256_extract_epi64::<2>(vector).to_le_bytes(),
        _mm256_extract_epi64::<3>(vector).to_le_bytes(),
    ]
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// Packs seven bits of each symbol, starting with the last symbol and with
    /// the lowest bit.
    fn bit_by_bit(symbols: &[u8]) -> Vec<u8> {
        let bits = symbols
            .iter()
            .rev()
            .flat_map(|symbol| (0..7).map(move |bit| symbol >> bit & 1));
        let bits: Vec<u8> = bits.collect();
        let bytes = bits.chunks(8);
        bytes
            .map(|bits| bits.iter().rev().fold(0, |byte, bit| byte << 1 | bit))
            .collect()
    }

    #[test]
    fn seven_bits_of_each_symbol() {
        let symbols: Vec<u8> = (0..4 * 32u32)
            .map(|k| ((k * k * 37 + k) >> 3).to_le_bytes()[0] & 0x7F)
            .collect();
        let (runs, _) = symbols.as_chunks();
        let expected = bit_by_bit(&symbols);
        // `packed` has room for the windows of all four runs, then of three.
        for (len, count) in [(3 * 28 + 30, 4), (3 * 28 + 29, 3)] {
            let mut packed = vec![0; len];
            let Some(done) = pack(runs, &mut packed) else {
                return; // a processor without AVX2
            };
            assert_eq!(done, count);
            assert_eq!(packed[..28 * count], expected[..28 * count]);
            let mut unpacked = [[0xFF; SYMBOLS]; 4];
            assert_eq!(unpack(&packed, &mut unpacked), count);
            assert_eq!(unpacked[4 - count..], runs[4 - count..]);
            assert!(
                unpacked[..4 - count]
                    .as_flattened()
                    .iter()
                    .all(|&b| b == 0xFF)
            );
        }
    }
}
