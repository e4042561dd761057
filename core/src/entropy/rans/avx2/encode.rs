//! Encodes a few streams at once. The four states of a stream are a vector of
//! 64-bit lanes, which have enough room for products.

use core::arch::x86_64::{
    __m256i, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_packus_epi32, _mm_shuffle_epi8,
    _mm256_add_epi32, _mm256_and_si256, _mm256_blend_epi32, _mm256_castsi256_ps,
    _mm256_castsi256_si128, _mm256_cmpgt_epi32, _mm256_extract_epi64, _mm256_extracti128_si256,
    _mm256_movemask_ps, _mm256_mul_epu32, _mm256_set1_epi32, _mm256_set1_epi64x,
    _mm256_setr_epi64x, _mm256_setzero_si256, _mm256_shuffle_epi32, _mm256_slli_epi32,
    _mm256_slli_epi64, _mm256_srli_epi32, _mm256_srli_epi64, _mm256_srlv_epi32, _mm256_srlv_epi64,
    _mm256_sub_epi32,
};

use crate::entropy::rans::state::PackedCode;
use crate::entropy::rans::stream::{BITS, Encoding, STATES};

/// Shuffle indices that collect the emitted bytes from a vector of four 32-bit
/// states, for every set of states that emit a byte (bit 2 *n* for state *n*) or a
/// second one (bit 2 *n* + 1). The emitted bytes are the last of the eight output
/// bytes, and the first byte of a state comes after its second.
const PLACES: [u64; 256] = {
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
pub fn encode<const STREAMS: usize>(mut streams: [&mut Encoding; STREAMS]) {
    let lens = streams.iter().map(|stream| stream.groups.len());
    let rounds = lens.min().unwrap_or(0);
    let mut states = [_mm256_setzero_si256(); STREAMS];
    for (states, stream) in states.iter_mut().zip(&streams) {
        let [a, b, c, d] = stream.states.map(i64::from);
        *states = _mm256_setr_epi64x(a, b, c, d);
    }
    for _ in 0..rounds {
        for (states, stream) in states.iter_mut().zip(&mut streams) {
            *states = step(*states, stream);
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
fn step(states: __m256i, stream: &mut Encoding) -> __m256i {
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

/// Returns the bytes that a set of states emits (see [`PLACES`]) as the last bytes
/// of the word.
#[inline]
#[target_feature(enable = "avx2")]
fn bytes(states: __m256i, set: u32) -> u64 {
    let low = _mm256_and_si256(states, _mm256_set1_epi64x(0xFFFF));
    let low = _mm_packus_epi32(
        _mm256_castsi256_si128(low),
        _mm256_extracti128_si256::<1>(low),
    );
    let places = _mm_cvtsi64_si128(PLACES[set as usize & 0xFF].cast_signed());
    _mm_cvtsi128_si64(_mm_shuffle_epi8(low, places)).cast_unsigned()
}
