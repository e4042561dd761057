//! Decodes and encodes order-0 streams with AVX2, several at a time, because
//! each symbol depends on the one four positions earlier in its own stream.

use core::arch::x86_64::{
    __m128i, __m256i, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_extract_epi64, _mm_packus_epi32,
    _mm_set_epi64x, _mm_shuffle_epi8, _mm256_add_epi32, _mm256_and_si256, _mm256_blend_epi32,
    _mm256_castsi256_ps, _mm256_castsi256_si128, _mm256_cmpgt_epi32, _mm256_extract_epi32,
    _mm256_extract_epi64, _mm256_extracti128_si256, _mm256_movemask_ps, _mm256_mul_epu32,
    _mm256_mullo_epi32, _mm256_or_si256, _mm256_set_m128i, _mm256_set1_epi32, _mm256_set1_epi64x,
    _mm256_setr_epi32, _mm256_setr_epi64x, _mm256_setzero_si256, _mm256_shuffle_epi8,
    _mm256_shuffle_epi32, _mm256_slli_epi32, _mm256_slli_epi64, _mm256_sllv_epi32,
    _mm256_srli_epi32, _mm256_srli_epi64, _mm256_srlv_epi32, _mm256_srlv_epi64, _mm256_sub_epi32,
};

use crate::entropy::rans::state::{LOWER, PackedCode};
use crate::entropy::rans::stream::{BITS, Encoding, Running, STATES};

/// Shuffle indices that move the bytes of a window to the four states of a stream
/// that take them. In the index of this table, the lower four bits mark the states
/// that take a byte, and the upper four bits the states that take a second one. The
/// first byte of a state goes above its second.
const DECODE_PLACES: [[u64; 2]; 256] = {
    let mut all = [[0; 2]; 256];
    let mut set = 0;
    while set < 256 {
        let mut places = [0x8080_8080u32; STATES];
        let (mut lane, mut next) = (0, 0);
        while lane < STATES {
            if set >> lane & 1 == 1 {
                places[lane] = 0x8080_8000 | next;
                next += 1;
            }
            if set >> (STATES + lane) & 1 == 1 {
                places[lane] = places[lane] << 8 & 0xFF00 | 0x8080_0000 | next;
                next += 1;
            }
            lane += 1;
        }
        all[set] = [
            places[0] as u64 | (places[1] as u64) << 32,
            places[2] as u64 | (places[3] as u64) << 32,
        ];
        set += 1;
    }
    all
};

/// Maximum number of bytes that the four states of a stream take for one symbol
/// each.
const WINDOW_BYTES: usize = 2 * STATES;

/// Decodes symbols of `PAIRS` pairs of streams until one of the streams has few
/// bytes or symbols left.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn decode<const PAIRS: usize>(mut streams: [&mut [Running; 2]; PAIRS]) {
    let mut rounds = usize::MAX;
    let mut states = [_mm256_set1_epi32(0); PAIRS];
    let mut inputs: [[&[u8]; 2]; PAIRS] = [[&[]; 2]; PAIRS];
    for (number, pair) in streams.iter().enumerate() {
        let [first, second] = pair;
        rounds = rounds.min(first.groups.len()).min(second.groups.len());
        states[number] = vector(pair);
        inputs[number] = [first.input.0, second.input.0];
    }
    while rounds > 0 {
        // The remaining bytes suffice for this many rounds, whatever the symbols
        // are.
        let lens = inputs.as_flattened().iter().map(|input| input.len());
        let sure = lens.min().unwrap_or(0) / WINDOW_BYTES;
        if sure == 0 {
            break;
        }
        for _ in 0..sure.min(rounds) {
            for number in 0..PAIRS {
                let states = &mut states[number];
                *states = decode_step::<PAIRS>(*states, &mut inputs[number], streams[number]);
            }
        }
        rounds -= sure.min(rounds);
    }
    for (number, pair) in streams.iter_mut().enumerate() {
        store(states[number], pair);
        let [first, second] = inputs[number];
        (pair[0].input.0, pair[1].input.0) = (first, second);
    }
}

/// Decodes a symbol of each state of a pair, and returns the new states.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn decode_step<const PAIRS: usize>(
    states: __m256i,
    [first_input, second_input]: &mut [&[u8]; 2],
    [first, second]: &mut [Running; 2],
) -> __m256i {
    let slots = _mm256_and_si256(states, _mm256_set1_epi32((1 << BITS) - 1));
    let codes = symbols(slots, first, second);

    let frequencies = _mm256_and_si256(codes, _mm256_set1_epi32(0xFFFF));
    let starts = _mm256_srli_epi32::<16>(codes);
    let quotients = _mm256_srli_epi32::<{ BITS.cast_signed() }>(states);
    let next = _mm256_add_epi32(
        _mm256_mullo_epi32(frequencies, quotients),
        _mm256_sub_epi32(slots, starts),
    );

    // States are below 2^31, so signed comparisons work.
    let takes_one = _mm256_cmpgt_epi32(_mm256_set1_epi32(LOWER.cast_signed()), next);
    let takes_two = _mm256_cmpgt_epi32(_mm256_set1_epi32((LOWER >> 8).cast_signed()), next);
    let one = _mm256_movemask_ps(_mm256_castsi256_ps(takes_one)).cast_unsigned();
    let two = _mm256_movemask_ps(_mm256_castsi256_ps(takes_two)).cast_unsigned();
    let first_set = one & 0xF | two << 4 & 0xF0;
    let second_set = one >> 4 | two & 0xF0;
    let (first_window, first_places) = take(first_input, first_set);
    let (second_window, second_places) = take(second_input, second_set);
    let bytes = _mm256_shuffle_epi8(
        _mm256_set_m128i(second_window, first_window),
        _mm256_set_m128i(second_places, first_places),
    );
    let eight = _mm256_set1_epi32(8);
    let shifts = _mm256_add_epi32(
        _mm256_and_si256(takes_one, eight),
        _mm256_and_si256(takes_two, eight),
    );
    _mm256_or_si256(_mm256_sllv_epi32(next, shifts), bytes)
}

/// Writes the symbols of the slots of all states, and returns their codes.
#[inline]
#[target_feature(enable = "avx2")]
fn symbols(slots: __m256i, first: &mut Running, second: &mut Running) -> __m256i {
    // The slots are extracted from the vector as two words, because every
    // extraction takes time.
    let packed = _mm_packus_epi32(
        _mm256_castsi256_si128(slots),
        _mm256_extracti128_si256::<1>(slots),
    );
    let low = _mm_cvtsi128_si64(packed).cast_unsigned();
    let high = _mm_extract_epi64::<1>(packed).cast_unsigned();
    let [a, b, c, d] = codes(low, first);
    let [e, f, g, h] = codes(high, second);
    _mm256_setr_epi32(a, b, c, d, e, f, g, h)
}

#[inline(always)]
fn codes(slots: u64, stream: &mut Running) -> [i32; STATES] {
    let lookup = stream.lookup;
    #[allow(clippy::cast_possible_truncation)] // keeps 16 bits of the word
    let symbols: [u8; STATES] =
        core::array::from_fn(|lane| lookup.symbol(u32::from((slots >> (16 * lane)) as u16)));
    if let Some(group) = stream.groups.next() {
        *group = symbols;
    }
    symbols.map(|symbol| lookup.code(symbol).bits().cast_signed())
}

/// Takes the bytes for a set of states (see [`DECODE_PLACES`]). Returns the window that
/// contains them and the shuffle indices that move them to the states.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn take(input: &mut &[u8], set: u32) -> (__m128i, __m128i) {
    let window = input
        .first_chunk()
        .map_or(0, |window| i64::from_le_bytes(*window));
    let taken = set.count_ones() as usize;
    *input = input.get(taken..).unwrap_or(&[]);
    let [low, high] = DECODE_PLACES[set as usize & 0xFF].map(u64::cast_signed);
    (_mm_cvtsi64_si128(window), _mm_set_epi64x(high, low))
}

#[inline]
#[target_feature(enable = "avx2")]
fn vector([first, second]: &[Running; 2]) -> __m256i {
    let [a, b, c, d] = first.states.map(u32::cast_signed);
    let [e, f, g, h] = second.states.map(u32::cast_signed);
    _mm256_setr_epi32(a, b, c, d, e, f, g, h)
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(states: __m256i, [first, second]: &mut [Running; 2]) {
    first.states = [
        _mm256_extract_epi32::<0>(states),
        _mm256_extract_epi32::<1>(states),
        _mm256_extract_epi32::<2>(states),
        _mm256_extract_epi32::<3>(states),
    ]
    .map(i32::cast_unsigned);
    second.states = [
        _mm256_extract_epi32::<4>(states),
        _mm256_extract_epi32::<5>(states),
        _mm256_extract_epi32::<6>(states),
        _mm256_extract_epi32::<7>(states),
    ]
    .map(i32::cast_unsigned);
}

/// Shuffle indices that collect the emitted bytes from a vector of four 32-bit
/// states, for every set of states that emit a byte (bit 2 *n* for state *n*) or a
/// second one (bit 2 *n* + 1). The emitted bytes are the last of the eight output
/// bytes, and the first byte of a state comes after its second.
const ENCODE_PLACES: [u64; 256] = {
    let mut all = [0; 256];
    let mut set = 0;
    while set < 256 {
        let mut places = 0u64;
        let mut lane = 0;
        while lane < STATES {
            let place = 4 * lane as u64;
            if set >> (2 * lane + 1) & 1 == 1 {
                places = places >> 8 | (place + 1) << 56;
            }
            if set >> (2 * lane) & 1 == 1 {
                places = places >> 8 | place << 56;
            }
            lane += 1;
        }
        all[set] = places;
        set += 1;
    }
    all
};

/// Encodes groups of symbols of all streams, starting with the last group, until
/// one of the streams has no groups left.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn encode<const STREAMS: usize>(mut streams: [&mut Encoding; STREAMS]) {
    let lens = streams.iter().map(|stream| stream.groups.len());
    let rounds = lens.min().unwrap_or(0);
    let mut states = [_mm256_setzero_si256(); STREAMS];
    for (states, stream) in states.iter_mut().zip(&streams) {
        let [a, b, c, d] = stream.states.map(i64::from);
        *states = _mm256_setr_epi64x(a, b, c, d);
    }
    for _ in 0..rounds {
        for (states, stream) in states.iter_mut().zip(&mut streams) {
            *states = encode_step(*states, stream);
        }
    }
    for (states, stream) in states.iter().zip(&mut streams) {
        #[allow(clippy::cast_possible_truncation)] // states have 31 bits
        let lanes = [
            _mm256_extract_epi64::<0>(*states),
            _mm256_extract_epi64::<1>(*states),
            _mm256_extract_epi64::<2>(*states),
            _mm256_extract_epi64::<3>(*states),
        ]
        .map(|state| state as u32);
        stream.states = lanes;
    }
}

/// Encodes a symbol with each state of a stream, and returns the new states.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn encode_step(states: __m256i, stream: &mut Encoding) -> __m256i {
    let group = stream.groups.next_back().copied().unwrap_or_default();
    let [a, b, c, d] = group.map(|symbol| stream.packed[usize::from(symbol)].0.cast_signed());
    let codes = _mm256_setr_epi64x(a, b, c, d);
    // The upper half of each code, copied to both halves of its lane.
    let fields = _mm256_shuffle_epi32::<0b11_11_01_01>(codes);
    let others = _mm256_and_si256(
        _mm256_srli_epi32::<{ PackedCode::OTHERS_SHIFT }>(fields),
        _mm256_set1_epi32(PackedCode::FIELD_MASK),
    );
    let starts = _mm256_and_si256(fields, _mm256_set1_epi64x(PackedCode::FIELD_MASK as i64));

    // The largest states that emit nothing. Limits themselves may be 2^31, which is
    // not a signed number.
    let frequencies = _mm256_sub_epi32(_mm256_set1_epi32(1 << BITS), others);
    let limits = _mm256_sub_epi32(
        _mm256_slli_epi32::<{ 31 - BITS.cast_signed() }>(frequencies),
        _mm256_set1_epi32(1),
    );
    // The states, and in the upper halves their values after emitting one byte.
    let shortened = _mm256_slli_epi64::<24>(states);
    let lens = _mm256_blend_epi32::<0b1010_1010>(states, shortened);
    let emits = _mm256_cmpgt_epi32(lens, limits);
    let set = _mm256_movemask_ps(_mm256_castsi256_ps(emits)).cast_unsigned();
    stream
        .emitted
        .push_word(bytes(states, set), set.count_ones());

    let eights = _mm256_and_si256(emits, _mm256_set1_epi32(8));
    let shifts = _mm256_add_epi32(eights, _mm256_srli_epi64::<32>(eights));
    let rest = _mm256_srlv_epi32(states, shifts);
    let quotients = _mm256_srlv_epi64(
        _mm256_srli_epi64::<{ PackedCode::MIN_SHIFT }>(_mm256_mul_epu32(rest, codes)),
        _mm256_srli_epi64::<{ 32 + PackedCode::SHIFT_SHIFT }>(codes),
    );
    let gained = _mm256_mul_epu32(quotients, others);
    _mm256_add_epi32(_mm256_add_epi32(rest, starts), gained)
}

/// Returns the bytes that a set of states emits (see [`ENCODE_PLACES`]) as the last bytes
/// of the word.
#[inline]
#[target_feature(enable = "avx2")]
fn bytes(states: __m256i, set: u32) -> u64 {
    let low = _mm256_and_si256(states, _mm256_set1_epi64x(0xFFFF));
    let low = _mm_packus_epi32(
        _mm256_castsi256_si128(low),
        _mm256_extracti128_si256::<1>(low),
    );
    let places = _mm_cvtsi64_si128(ENCODE_PLACES[set as usize & 0xFF].cast_signed());
    _mm_cvtsi128_si64(_mm_shuffle_epi8(low, places)).cast_unsigned()
}
