//! Decodes eight symbols at once with pairs of WebAssembly vectors. Each symbol
//! of a state depends on the previous one, so streams with few states are
//! decoded several at a time.

use core::arch::wasm32::{
    i8x16_shuffle, i8x16_swizzle, i16x8_bitmask, i16x8_narrow_i32x4, i32x4_add, i32x4_eq,
    i32x4_mul, i32x4_shl, u16x8, u16x8_extract_lane, u16x8_narrow_i32x4, u16x8_splat, u32x4,
    u32x4_extend_high_u16x8, u32x4_extend_low_u16x8, u32x4_extract_lane, u32x4_shr, u32x4_splat,
    u64x2, u64x2_extract_lane, v128, v128_and, v128_andnot, v128_or,
};

use super::{DecodeTables, LOWER, MAX_STATES, MIN_STATES, SLOT_BITS, SLOTS, StreamPart};

/// Eight states, symbols or words of 32 bits each.
type Eight = [v128; 2];

/// Maximum number of vector pairs that are processed together. With a single
/// one, the processor would wait for each result.
const MAX_VECTORS: usize = MAX_STATES / MIN_STATES;

/// Decodes symbols of several streams like [`Decoder::decode`], until one of
/// the streams has few words or choices left. Returns the number of symbols
/// decoded from each stream, and the number of streams processed, which is at
/// least one if there are any.
///
/// [`Decoder::decode`]: super::Decoder::decode
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

/// For each set of states that take a word, the byte indices of each state's
/// word. Words are assigned to these states in order. States that take no word
/// have indices that select 0.
const PLACES: [[u64; 2]; 256] = {
    let mut places = [[0; 2]; 256];
    let mut set = 0;
    while set < 256 {
        let mut bytes = [[0x80; 8]; 2];
        let mut next = 0;
        let mut lane = 0;
        while lane < 8 {
            if set >> lane & 1 == 1 {
                bytes[lane / 4][lane % 4 * 2] = next;
                bytes[lane / 4][lane % 4 * 2 + 1] = next + 1;
                next += 2;
            }
            lane += 1;
        }
        places[set] = [u64::from_le_bytes(bytes[0]), u64::from_le_bytes(bytes[1])];
        set += 1;
    }
    places
};

#[inline(always)]
fn steps<const VECTORS: usize, const STREAMS: usize>(
    tables: &DecodeTables,
    mut streams: [&mut StreamPart; STREAMS],
) -> usize {
    let mut states = [[[u32x4_splat(0); 2]; VECTORS]; STREAMS];
    let mut left: [&[[u8; 2]]; STREAMS] = [&[]; STREAMS];
    let mut rounds = usize::MAX;
    for (number, stream) in streams.iter().enumerate() {
        let decoder = &stream.decoder;
        let (stored, _) = decoder.states.as_chunks::<MIN_STATES>();
        for (state, stored) in states[number].iter_mut().zip(stored) {
            *state = vectors(stored);
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
            *stored = lanes(state);
        }
        if done > 0 {
            decoder.position = decoder.words.len() - left[number].len();
        }
    }
    done * VECTORS * MIN_STATES
}

/// Looks up the entries of the slots of all states.
#[inline(always)]
fn entries_of(tables: &DecodeTables, [low, high]: Eight, choices: &[u16; MIN_STATES]) -> Eight {
    let slot_mask = u32x4_splat(SLOTS - 1);
    let slots = u16x8_narrow_i32x4(v128_and(low, slot_mask), v128_and(high, slot_mask));
    let [a, b, c, d, e, f, g, h] = *choices;
    let choices = u16x8(a, b, c, d, e, f, g, h);
    let indices = v128_or(slots, v128_and(choices, u16x8_splat(u16::MAX << SLOT_BITS)));
    let entry = |index: u16| tables.entries[usize::from(index)];
    [
        u32x4(
            entry(u16x8_extract_lane::<0>(indices)),
            entry(u16x8_extract_lane::<1>(indices)),
            entry(u16x8_extract_lane::<2>(indices)),
            entry(u16x8_extract_lane::<3>(indices)),
        ),
        u32x4(
            entry(u16x8_extract_lane::<4>(indices)),
            entry(u16x8_extract_lane::<5>(indices)),
            entry(u16x8_extract_lane::<6>(indices)),
            entry(u16x8_extract_lane::<7>(indices)),
        ),
    ]
}

/// Advances each state by one symbol. Returns the new states and the number of
/// words taken.
#[inline(always)]
fn step(states: Eight, entries: Eight, window: &[[u8; 2]; MIN_STATES]) -> (Eight, usize) {
    let next = |state: v128, entry: v128| {
        let frequency = v128_and(u32x4_shr(entry, 8), u32x4_splat(SLOTS - 1));
        let frequency = i32x4_add(frequency, u32x4_splat(1));
        let product = i32x4_mul(frequency, u32x4_shr(state, SLOT_BITS));
        i32x4_add(product, u32x4_shr(entry, 20))
    };
    let is_low = |next: v128| i32x4_eq(u32x4_shr(next, LOWER.ilog2()), u32x4_splat(0));
    let low = next(states[0], entries[0]);
    let high = next(states[1], entries[1]);
    let (low_takes, high_takes) = (is_low(low), is_low(high));
    let set = i16x8_bitmask(i16x8_narrow_i32x4(low_takes, high_takes));
    let [first, second] = PLACES[usize::from(set)];
    let words = i8x16_swizzle(vector(window), u64x2(first, second));
    // A state that takes no word gets a word of zero.
    let refilled = |next: v128, takes: v128, word: v128| {
        let moved = v128_and(i32x4_shl(next, 16), takes);
        v128_or(v128_or(moved, v128_andnot(next, takes)), word)
    };
    let states = [
        refilled(low, low_takes, u32x4_extend_low_u16x8(words)),
        refilled(high, high_takes, u32x4_extend_high_u16x8(words)),
    ];
    (states, set.count_ones() as usize)
}

#[inline(always)]
fn vectors(&[a, b, c, d, e, f, g, h]: &[u32; MIN_STATES]) -> Eight {
    [u32x4(a, b, c, d), u32x4(e, f, g, h)]
}

#[inline(always)]
fn lanes([low, high]: Eight) -> [u32; MIN_STATES] {
    [
        u32x4_extract_lane::<0>(low),
        u32x4_extract_lane::<1>(low),
        u32x4_extract_lane::<2>(low),
        u32x4_extract_lane::<3>(low),
        u32x4_extract_lane::<0>(high),
        u32x4_extract_lane::<1>(high),
        u32x4_extract_lane::<2>(high),
        u32x4_extract_lane::<3>(high),
    ]
}

#[inline(always)]
fn vector(words: &[[u8; 2]; MIN_STATES]) -> v128 {
    let (halves, _) = words.as_flattened().as_chunks::<8>();
    u64x2(u64::from_le_bytes(halves[0]), u64::from_le_bytes(halves[1]))
}

/// Returns the low bytes of the lanes.
#[inline(always)]
fn symbols_of([low, high]: Eight) -> [u8; MIN_STATES] {
    let packed =
        i8x16_shuffle::<0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28>(low, high);
    u64x2_extract_lane::<0>(packed).to_le_bytes()
}
