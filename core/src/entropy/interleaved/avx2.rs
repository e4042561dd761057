//! Eight symbols at once, where the processor has AVX2.

use core::arch::x86_64::{
    __m256i, _mm_cvtsi64_si128, _mm_setr_epi16, _mm256_add_epi32, _mm256_and_si256,
    _mm256_blendv_epi8, _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_cvtepu8_epi32,
    _mm256_cvtepu16_epi32, _mm256_extract_epi32, _mm256_movemask_ps, _mm256_mullo_epi32,
    _mm256_or_si256, _mm256_permutevar8x32_epi32, _mm256_set1_epi32, _mm256_setr_epi8,
    _mm256_setr_epi32, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_slli_epi32,
    _mm256_srli_epi32,
};

use super::decode::{DecodeTables, Decoder};
use super::{MIN_STATES, SLOT_BITS, SLOTS};

cpufeatures::new!(has_avx2, "avx2");

/// Decodes symbols as [`Decoder::decode`] does until the words come to their
/// end. Returns the number of steps, each of which is eight symbols, or `None`
/// if the processor does not have AVX2.
pub(super) fn decode(
    decoder: &mut Decoder,
    tables: &DecodeTables,
    choices: &[[u16; MIN_STATES]],
    symbols: &mut [[u8; MIN_STATES]],
) -> Option<usize> {
    if !has_avx2::get() {
        return None;
    }
    // SAFETY: the processor has AVX2.
    #[allow(unsafe_code)]
    let steps = unsafe {
        match decoder.count / MIN_STATES {
            1 => steps::<1>(decoder, tables, choices, symbols),
            2 => steps::<2>(decoder, tables, choices, symbols),
            _ => steps::<4>(decoder, tables, choices, symbols),
        }
    };
    Some(steps)
}

/// For each set of states that take a word, the number of the word for each:
/// how many states before it take one.
const PLACES: [u64; 256] = {
    let mut places = [0; 256];
    let mut set = 0;
    while set < 256 {
        let mut bytes = [0; 8];
        let mut next = 0;
        let mut lane = 0;
        while lane < 8 {
            bytes[lane] = next;
            if set >> lane & 1 == 1 {
                next += 1;
            }
            lane += 1;
        }
        places[set] = u64::from_le_bytes(bytes);
        set += 1;
    }
    places
};

#[target_feature(enable = "avx2")]
fn steps<const VECTORS: usize>(
    decoder: &mut Decoder,
    tables: &DecodeTables,
    choices: &[[u16; MIN_STATES]],
    symbols: &mut [[u8; MIN_STATES]],
) -> usize {
    let mut states = [_mm256_setzero_si256(); VECTORS];
    let (stored, _) = decoder.states.as_chunks_mut::<MIN_STATES>();
    for (state, stored) in states.iter_mut().zip(stored.iter()) {
        *state = vector(stored);
    }
    let (choices, _) = choices.as_chunks::<VECTORS>();
    let (symbols, _) = symbols.as_chunks_mut::<VECTORS>();
    let mut done = 0;
    for (choices, symbols) in choices.iter().zip(symbols) {
        // Each vector takes at most eight words.
        let left = decoder.words.get(decoder.position..).unwrap_or(&[]);
        if left.len() < VECTORS * MIN_STATES {
            break;
        }
        let mut used = 0;
        for vector in 0..VECTORS {
            let window = &left[used..];
            let Some(window) = window.first_chunk() else {
                break;
            };
            let (state, bytes, words) = step(tables, states[vector], &choices[vector], window);
            states[vector] = state;
            symbols[vector] = bytes;
            used += words;
        }
        decoder.position += used;
        done += VECTORS;
    }
    for (state, stored) in states.iter().zip(stored) {
        *stored = lanes(*state).map(i32::cast_unsigned);
    }
    done
}

/// Returns the states after a symbol of each, the symbols, and the number of
/// words taken.
#[inline]
#[target_feature(enable = "avx2")]
fn step(
    tables: &DecodeTables,
    states: __m256i,
    choices: &[u16; MIN_STATES],
    window: &[[u8; 2]; MIN_STATES],
) -> (__m256i, [u8; MIN_STATES], usize) {
    let slot_mask = _mm256_set1_epi32(SLOTS.cast_signed() - 1);
    let table_mask = _mm256_set1_epi32(0xF000);
    let indices = _mm256_or_si256(
        _mm256_and_si256(states, slot_mask),
        _mm256_and_si256(words(choices.map(u16::cast_signed)), table_mask),
    );
    // Eight loads are as fast as a gather, and are checked.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // masked to 16 bits
    let entries = lanes(indices).map(|index| tables.entries[usize::from(index as u16)]);
    let entries = vector(&entries);
    let symbols = symbols(entries);
    let frequencies = _mm256_add_epi32(
        _mm256_and_si256(_mm256_srli_epi32::<8>(entries), slot_mask),
        _mm256_set1_epi32(1),
    );
    let quotients = _mm256_srli_epi32::<{ SLOT_BITS.cast_signed() }>(states);
    let next = _mm256_add_epi32(
        _mm256_mullo_epi32(frequencies, quotients),
        _mm256_srli_epi32::<20>(entries),
    );
    let is_low = _mm256_cmpeq_epi32(_mm256_srli_epi32::<16>(next), _mm256_setzero_si256());
    let set = _mm256_movemask_ps(_mm256_castsi256_ps(is_low));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a bit for each lane
    let places = PLACES[usize::from(set as u8)];
    let places = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(places.cast_signed()));
    let window = words(window.map(i16::from_le_bytes));
    let refilled = _mm256_or_si256(
        _mm256_slli_epi32::<16>(next),
        _mm256_permutevar8x32_epi32(window, places),
    );
    let states = _mm256_blendv_epi8(next, refilled, is_low);
    (states, symbols, set.count_ones() as usize)
}

#[inline]
#[target_feature(enable = "avx2")]
fn vector(numbers: &[u32; MIN_STATES]) -> __m256i {
    let [a, b, c, d, e, f, g, h] = numbers.map(u32::cast_signed);
    _mm256_setr_epi32(a, b, c, d, e, f, g, h)
}

/// Widens words to lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn words([a, b, c, d, e, f, g, h]: [i16; MIN_STATES]) -> __m256i {
    _mm256_cvtepu16_epi32(_mm_setr_epi16(a, b, c, d, e, f, g, h))
}

#[inline]
#[target_feature(enable = "avx2")]
fn lanes(vector: __m256i) -> [i32; MIN_STATES] {
    [
        _mm256_extract_epi32::<0>(vector),
        _mm256_extract_epi32::<1>(vector),
        _mm256_extract_epi32::<2>(vector),
        _mm256_extract_epi32::<3>(vector),
        _mm256_extract_epi32::<4>(vector),
        _mm256_extract_epi32::<5>(vector),
        _mm256_extract_epi32::<6>(vector),
        _mm256_extract_epi32::<7>(vector),
    ]
}

/// Returns the low bytes of the lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn symbols(entries: __m256i) -> [u8; MIN_STATES] {
    let low = _mm256_setr_epi8(
        0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12, -1, -1, -1, -1,
        -1, -1, -1, -1, -1, -1, -1, -1,
    );
    let packed = _mm256_shuffle_epi8(entries, low);
    let first = _mm256_extract_epi32::<0>(packed).to_le_bytes();
    let second = _mm256_extract_epi32::<4>(packed).to_le_bytes();
    let [a, b, c, d] = first;
    let [e, f, g, h] = second;
    [a, b, c, d, e, f, g, h]
}
