//! Writes Huffman codes of narrow alphabets with AVX2. Exponents of weights and
//! other planes of floats use few neighbouring values, whose codes fit in vector
//! registers: shuffles look up 32 of them at once, and variable shifts join them
//! into words of eight codes each.

use core::arch::x86_64::{
    __m256i, _mm256_add_epi8, _mm256_add_epi64, _mm256_and_si256, _mm256_cmpgt_epi32,
    _mm256_extract_epi64, _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_mullo_epi16,
    _mm256_or_si256, _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_epi64x,
    _mm256_setr_epi64x, _mm256_shuffle_epi8, _mm256_slli_epi64, _mm256_sllv_epi32,
    _mm256_sllv_epi64, _mm256_srli_epi16, _mm256_srli_epi32, _mm256_srli_epi64, _mm256_testz_si256,
};
use core::mem;

use super::huffman::Code;
use super::huffman_streams::{Single, Sink};
use crate::avx2::{call, is_there};

/// The largest range of values of a narrow alphabet: two tables of a shuffle.
pub const VALUES: usize = 32;
/// Number of symbols that are looked up at once.
const SYMBOLS: usize = 32;
/// The maximum length in bits of eight codes. With a partly filled byte, they
/// fit in a word, and the byte above them holds their length.
const WORD_BITS: i32 = 56;

/// The codes of a narrow alphabet and their lengths in bits, by the distance of
/// the value from the first one.
pub struct Narrow {
    first: u8,
    /// Every code fits in a byte, also if it has more bits: a code is less than
    /// the number of codes that are at least as long (RFC 8878, 4.2.1.3).
    codes: [u8; VALUES],
    lens: [u8; VALUES],
}

impl Narrow {
    /// Returns the tables for `used` values from `first` on, or `None` if there are
    /// too many, or if the processor does not support AVX2.
    pub fn new(code: &Code, first: u8, used: usize) -> Option<Self> {
        if used > VALUES || !is_there() {
            return None;
        }
        let mut tables = Self {
            first,
            codes: [0; VALUES],
            lens: [0; VALUES],
        };
        let places = tables.codes.iter_mut().zip(&mut tables.lens);
        for (symbol, (place, len)) in (first..=u8::MAX).zip(places).take(used) {
            *place = u8::try_from(code.code(symbol)).ok()?;
            *len = code.len_bits(symbol);
        }
        Some(tables)
    }

    /// Writes as many whole runs from the end of all parts as the shortest part
    /// has, and returns the remaining symbols of each part. Runs whose codes are
    /// too long for a word are written by `long`.
    pub fn write<'a, const N: usize>(
        &self,
        long: &Single,
        parts: [&'a [u8]; N],
        sinks: &mut [Sink; N],
    ) -> [&'a [u8]; N] {
        call!(write_runs, self, long, parts, sinks; else parts)
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
fn write_runs<'a, const N: usize>(
    narrow: &Narrow,
    long: &Single,
    parts: [&'a [u8]; N],
    sinks: &mut [Sink; N],
) -> [&'a [u8]; N] {
    let tables = Tables::new(narrow);
    let runs = parts.map(|part| part.as_rchunks::<SYMBOLS>().1);
    let common = runs.iter().map(|runs| runs.len()).min().unwrap_or(0);
    let tails = runs.map(|runs| &runs[runs.len() - common..]);
    // Copies of the sinks stay in registers.
    let mut copies = sinks.each_mut().map(mem::take);
    for k in (0..common).rev() {
        for (tail, sink) in tails.iter().zip(&mut copies) {
            match tables.words(&tail[k]) {
                Some(words) => {
                    for word in words.into_iter().rev() {
                        sink.hold(word & ((1 << WORD_BITS) - 1), (word >> WORD_BITS) as u32);
                        sink.flush();
                    }
                }
                None => long.groups(&tail[k], sink),
            }
        }
    }
    for (sink, copy) in sinks.iter_mut().zip(copies) {
        *sink = copy;
    }
    parts.map(|part| &part[..part.len() - common * SYMBOLS])
}

/// The tables in registers. Each consists of two halves of 16 entries, which are
/// in both lanes.
struct Tables {
    first: __m256i,
    codes: [__m256i; 2],
    lens: [__m256i; 2],
    powers: __m256i,
}

impl Tables {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(narrow: &Narrow) -> Self {
        Self {
            first: _mm256_set1_epi8(narrow.first.wrapping_neg().cast_signed()),
            codes: lookups(&narrow.codes),
            lens: lookups(&narrow.lens),
            powers: _mm256_setr_epi64x(POWERS, 0, POWERS, 0),
        }
    }

    /// Returns the joined codes of eight symbols in each word, those of the last
    /// symbol lowest, and their length above [`WORD_BITS`]. Returns `None` if
    /// some are too long.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn words(&self, symbols: &[u8; SYMBOLS]) -> Option<[u64; 4]> {
        let index = _mm256_add_epi8(vector(symbols), self.first);
        // A shuffle gives zero where the top bit of an index is set.
        let low = _mm256_add_epi8(index, _mm256_set1_epi8(0x70));
        let high = _mm256_add_epi8(index, _mm256_set1_epi8(-16));
        let look_up = |[from_low, from_high]: [__m256i; 2]| {
            _mm256_or_si256(
                _mm256_shuffle_epi8(from_low, low),
                _mm256_shuffle_epi8(from_high, high),
            )
        };
        let codes = look_up(self.codes);
        let lens = look_up(self.lens);

        // There are no variable shifts of 16 bits, so the earlier code of a pair
        // is multiplied by a power of two. Its lower byte is found at the length
        // of the later code, its upper byte at that length minus eight.
        let later = _mm256_or_si256(
            _mm256_srli_epi16::<8>(lens),
            _mm256_and_si256(lens, _mm256_set1_epi16(-0x100)),
        );
        let later = _mm256_add_epi8(later, _mm256_set1_epi16(-0x800));
        let factors = _mm256_shuffle_epi8(self.powers, later);
        let earlier = _mm256_and_si256(codes, _mm256_set1_epi16(0xFF));
        let pairs = _mm256_or_si256(
            _mm256_mullo_epi16(earlier, factors),
            _mm256_srli_epi16::<8>(codes),
        );
        let pair_lens = _mm256_maddubs_epi16(lens, _mm256_set1_epi8(1));

        let earlier = _mm256_and_si256(pairs, _mm256_set1_epi32(0xFFFF));
        let fours = _mm256_or_si256(
            _mm256_sllv_epi32(earlier, _mm256_srli_epi32::<16>(pair_lens)),
            _mm256_srli_epi32::<16>(pairs),
        );
        let four_lens = _mm256_madd_epi16(pair_lens, _mm256_set1_epi16(1));

        let lower_half = _mm256_set1_epi64x(0xFFFF_FFFF);
        let earlier = _mm256_and_si256(fours, lower_half);
        let upper_lens = _mm256_srli_epi64::<32>(four_lens);
        let eights = _mm256_or_si256(
            _mm256_sllv_epi64(earlier, upper_lens),
            _mm256_srli_epi64::<32>(fours),
        );
        let eight_lens = _mm256_add_epi64(_mm256_and_si256(four_lens, lower_half), upper_lens);

        let too_long = _mm256_or_si256(
            _mm256_cmpgt_epi32(four_lens, _mm256_set1_epi32(32)),
            _mm256_cmpgt_epi32(eight_lens, _mm256_set1_epi32(WORD_BITS)),
        );
        if _mm256_testz_si256(too_long, too_long) == 0 {
            return None;
        }
        let words = _mm256_or_si256(eights, _mm256_slli_epi64::<WORD_BITS>(eight_lens));
        Some([
            _mm256_extract_epi64::<0>(words).cast_unsigned(),
            _mm256_extract_epi64::<1>(words).cast_unsigned(),
            _mm256_extract_epi64::<2>(words).cast_unsigned(),
            _mm256_extract_epi64::<3>(words).cast_unsigned(),
        ])
    }
}

/// The powers of two that fit in a byte.
const POWERS: i64 = i64::from_le_bytes([1, 2, 4, 8, 16, 32, 64, 128]);

#[inline]
#[target_feature(enable = "avx2")]
fn vector(bytes: &[u8; SYMBOLS]) -> __m256i {
    let (words, _) = bytes.as_chunks();
    let word = |k: usize| i64::from_le_bytes(words[k]);
    _mm256_setr_epi64x(word(0), word(1), word(2), word(3))
}

/// Returns each half of a table in both lanes of a vector.
#[inline]
#[target_feature(enable = "avx2")]
fn lookups(table: &[u8; VALUES]) -> [__m256i; 2] {
    let (words, _) = table.as_chunks();
    let half = |k: usize| {
        let [a, b] = [words[k], words[k + 1]].map(i64::from_le_bytes);
        _mm256_setr_epi64x(a, b, a, b)
    };
    [half(0), half(2)]
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::huffman_streams::{Scratch, Streams};
    use super::*;

    fn written(streams: &Streams, symbols: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut scratch = Scratch::default();
        let lens = streams.write_four(symbols, &mut scratch, &mut out);
        out.extend(lens.map(usize::to_le_bytes).as_flattened());
        streams.write(symbols, &mut scratch, &mut out);
        out
    }

    /// Compares the vectors with the table of single values, for alphabets of all
    /// sizes and several skews. The steepest ones have codes of eleven bits; runs
    /// of their rarest values do not fit in a word.
    #[test]
    fn writes_the_same_streams_as_one_symbol_at_a_time() {
        for used in 2..=VALUES {
            for (first, skew) in [(0, 1), (256 - used, 2), (97, 3), (112, 4)] {
                let mut state = 1u32;
                let mut symbols = Vec::new();
                for k in 0..used {
                    symbols.extend(core::iter::repeat_n(
                        u8::try_from(first + k).unwrap(),
                        // The number of occurrences halves `skew` times in four values.
                        2 + (4000 >> (k * skew / 4).min(11)),
                    ));
                }
                // The second half is shuffled; the first has runs of equal values.
                let len = symbols.len();
                for k in len / 2..len {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    symbols.swap(k, state as usize % len);
                }
                let mut sorted = symbols.clone();
                sorted.sort_unstable();
                for symbols in [&symbols[..], &sorted[..], &symbols[..1021]] {
                    let mut counts = [0; 256];
                    symbols
                        .iter()
                        .for_each(|&symbol| counts[usize::from(symbol)] += 1);
                    let Some(code) = Code::new(&counts).filter(|code| code.flat_bits().is_none())
                    else {
                        continue;
                    };
                    let streams = Streams::new(&code, &counts);
                    if is_there() {
                        assert!(matches!(streams, Streams::Narrow(..)));
                    }
                    let single = Streams::Single(Single::new(&code));
                    let same = written(&streams, symbols) == written(&single, symbols);
                    assert!(same, "{used} values from {first} on, skew {skew}");
                }
            }
        }
    }
}
