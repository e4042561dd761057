//! Decodes eight symbols at once with AVX2. Each symbol of a state depends on
//! the previous one, so streams with few states are decoded several at a time.

use core::arch::x86_64::{
    __m256i, _mm_and_si128, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_extract_epi64, _mm_or_si128,
    _mm_packus_epi32, _mm_set1_epi16, _mm_setr_epi16, _mm256_add_epi32, _mm256_and_si256,
    _mm256_castsi256_ps, _mm256_castsi256_si128, _mm256_cmpeq_epi32, _mm256_cvtepu8_epi32,
    _mm256_cvtepu16_epi32, _mm256_extract_epi32, _mm256_extracti128_si256, _mm256_movemask_ps,
    _mm256_mullo_epi32, _mm256_or_si256, _mm256_permutevar8x32_epi32, _mm256_set1_epi32,
    _mm256_setr_epi8, _mm256_setr_epi32, _mm256_setzero_si256, _mm256_shuffle_epi8,
    _mm256_sllv_epi32, _mm256_srli_epi32,
};

use super::{DecodeTables, MAX_STATES, MIN_STATES, SLOT_BITS, SLOTS, StreamPart};

/// Maximum number of vectors that are processed together. With a single one,
/// the processor would wait for each result.
const MAX_VECTORS: usize = MAX_STATES / MIN_STATES;

/// Decodes symbols of several streams like [`Decoder::decode`], until one of
/// the streams has few words or choices left. Returns the number of symbols
/// decoded from each stream, and the number of streams processed, which is at
/// least one if there are any.
#[target_feature(enable = "avx2,popcnt")]
pub(super) fn decode(tables: &DecodeTables, streams: &mut [StreamPart]) -> (usize, usize) {
    let vectors = streams
        .first()
        .map_or(MAX_VECTORS, |stream| stream.decoder.count / MIN_STATES);
    match (vectors, streams) {
        (_, []) => (0, 0),
        (1, [a, b, c, d, ..]) => (steps::<1, 4>(tables, [a, b, c, d]), 4),
        (1, [a, b, ..]) => (steps::<1, 2>(tables, [a, b]), 2),
        (1, [a]) => (steps::<1, 1>(tables, [a]), 1),
        (2, [a, b, ..]) => (steps::<2, 2>(tables, [a, b]), 2),
        (2, [a]) => (steps::<2, 1>(tables, [a]), 1),
        (_, [a, ..]) => (steps::<4, 1>(tables, [a]), 1),
    }
}

/// For each set of states that take a word, the index of the word for each
/// state, which is the number of states before it that take one.
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

#[target_feature(enable = "avx2,popcnt")]
fn steps<const VECTORS: usize, const STREAMS: usize>(
    tables: &DecodeTables,
    mut streams: [&mut StreamPart; STREAMS],
) -> usize {
    let mut states = [[_mm256_setzero_si256(); VECTORS]; STREAMS];
    let mut left: [&[[u8; 2]]; STREAMS] = [&[]; STREAMS];
    let mut rounds = usize::MAX;
    for (number, stream) in streams.iter().enumerate() {
        let decoder = &stream.decoder;
        let (stored, _) = decoder.states.as_chunks::<MIN_STATES>();
        for (state, stored) in states[number].iter_mut().zip(stored) {
            *state = vector(stored);
        }
        left[number] = decoder.words.get(decoder.position..).unwrap_or(&[]);
        let symbols = stream.choices.len().min(stream.symbols.len());
        rounds = rounds.min(symbols / (VECTORS * MIN_STATES));
    }
    let mut done = 0;
    while done < rounds {
        // Each vector takes at most eight words.
        if left.iter().any(|left| left.len() < VECTORS * MIN_STATES) {
            break;
        }
        for (number, stream) in streams.iter_mut().enumerate() {
            let (choices, _) = stream.choices.as_chunks::<MIN_STATES>();
            let (symbols, _) = stream.symbols.as_chunks_mut::<MIN_STATES>();
            let choices = &choices[VECTORS * done..][..VECTORS];
            let symbols = &mut symbols[VECTORS * done..][..VECTORS];
            for vector in 0..VECTORS {
                let Some(window) = left[number].first_chunk() else {
                    break;
                };
                let entries = entries_of(tables, states[number][vector], &choices[vector]);
                let (state, words) = step(states[number][vector], entries, window);
                states[number][vector] = state;
                symbols[vector] = symbols_of(entries);
                left[number] = &left[number][words..];
            }
        }
        done += 1;
    }
    for (number, stream) in streams.iter_mut().enumerate() {
        let decoder = &mut stream.decoder;
        let (stored, _) = decoder.states.as_chunks_mut::<MIN_STATES>();
        for (stored, state) in stored.iter_mut().zip(states[number]) {
            *stored = lanes(state).map(i32::cast_unsigned);
        }
        if done > 0 {
            decoder.position = decoder.words.len() - left[number].len();
        }
    }
    done * VECTORS * MIN_STATES
}

/// Looks up the entries of the slots of all states.
#[inline]
#[target_feature(enable = "avx2")]
fn entries_of(tables: &DecodeTables, states: __m256i, choices: &[u16; MIN_STATES]) -> __m256i {
    let slots = _mm256_and_si256(states, _mm256_set1_epi32(SLOTS.cast_signed() - 1));
    let slots = _mm_packus_epi32(
        _mm256_castsi256_si128(slots),
        _mm256_extracti128_si256::<1>(slots),
    );
    let [a, b, c, d, e, f, g, h] = choices.map(u16::cast_signed);
    let choices = _mm_setr_epi16(a, b, c, d, e, f, g, h);
    let table_mask = _mm_set1_epi16(-1 << SLOT_BITS);
    let indices = _mm_or_si128(slots, _mm_and_si128(choices, table_mask));
    // Eight loads are as fast as a gather instruction, and they are
    // bounds-checked. The indices are extracted from the vector as two words,
    // because every extraction takes time.
    let low = _mm_cvtsi128_si64(indices).cast_unsigned();
    let high = _mm_extract_epi64::<1>(indices).cast_unsigned();
    #[allow(clippy::cast_possible_truncation)] // keeps 16 bits of the word
    let entry = |word: u64, number: u32| {
        tables.entries[usize::from((word >> (16 * number)) as u16)].cast_signed()
    };
    _mm256_setr_epi32(
        entry(low, 0),
        entry(low, 1),
        entry(low, 2),
        entry(low, 3),
        entry(high, 0),
        entry(high, 1),
        entry(high, 2),
        entry(high, 3),
    )
}

/// Advances each state by one symbol. Returns the new states and the number of
/// words taken.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn step(states: __m256i, entries: __m256i, window: &[[u8; 2]; MIN_STATES]) -> (__m256i, usize) {
    let slot_mask = _mm256_set1_epi32(SLOTS.cast_signed() - 1);
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
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // one bit per lane
    let places = PLACES[usize::from(set as u8)];
    let places = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(places.cast_signed()));
    let window = words(window.map(i16::from_le_bytes));
    let words = _mm256_and_si256(_mm256_permutevar8x32_epi32(window, places), is_low);
    let moved = _mm256_sllv_epi32(next, _mm256_and_si256(is_low, _mm256_set1_epi32(16)));
    (_mm256_or_si256(moved, words), set.count_ones() as usize)
}

#[inline]
#[target_feature(enable = "avx2")]
fn vector(numbers: &[u32; MIN_STATES]) -> __m256i {
    let [a, b, c, d, e, f, g, h] = numbers.map(u32::cast_signed);
    _mm256_setr_epi32(a, b, c, d, e, f, g, h)
}

/// Widens words to 32-bit lanes.
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
fn symbols_of(entries: __m256i) -> [u8; MIN_STATES] {
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
