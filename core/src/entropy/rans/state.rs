//! Decoding (5.2) and encoding (5.3) of symbols with one state, the bounds of
//! its value, and the number of symbols that a stream can therefore hold.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::table::{Code, Lookup};
use crate::bytes::Cursor;
use crate::limits::UNEARNED_PLANE_BYTES;
use crate::{Error, Result, Rule};

/// The lower bound of a state, and its value before the first and after the last
/// symbol.
pub(super) const LOWER: u32 = 1 << 23;
const UPPER: u32 = 1 << 31;

/// Number of symbols that one [`Window`] suffices for, since each takes at most
/// two bytes.
pub(super) const WINDOW_SYMBOLS: usize = 4;

/// Reads an initial state (5.4). All arithmetic in this module relies on its
/// range.
pub(super) fn read(cursor: &mut Cursor) -> Result<u32> {
    let at = cursor.position() as u64;
    let state = cursor.u32("rANS state")?;
    if (LOWER..UPPER).contains(&state) {
        Ok(state)
    } else {
        Err(Error::malformed(
            Rule::RansState,
            format!("a rANS state of {state:#x} is out of range"),
        )
        .at(at))
    }
}

/// The bytes that a decoder has not consumed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    /// Returns the next eight bytes, with zeros beyond the end.
    #[inline]
    pub fn window(&self) -> Window {
        let word = match self.0.first_chunk() {
            Some(bytes) => *bytes,
            None => {
                let mut bytes = [0; 8];
                bytes[..self.0.len()].copy_from_slice(self.0);
                bytes
            }
        };
        Window {
            word: u64::from_be_bytes(word),
            taken_bits: 0,
        }
    }

    /// Skips the bytes that were taken from `window`.
    #[inline]
    pub(crate) fn consume(&mut self, window: Window) -> Result<()> {
        match self.0.get(window.taken_bits as usize / 8..) {
            Some(rest) => {
                self.0 = rest;
                Ok(())
            }
            None => Err(end("a rANS stream ends before its last symbol")),
        }
    }

    /// Checks the end conditions (5.4).
    pub fn finish(&self, states: &[u32]) -> Result<()> {
        if !self.0.is_empty() {
            return Err(end("bytes are left after the last rANS symbol"));
        }
        if states.iter().any(|&state| state != LOWER) {
            return Err(end("a rANS stream ends in another state than it started"));
        }
        Ok(())
    }
}

#[cold]
#[inline(never)]
fn end(detail: &'static str) -> Error {
    Error::malformed(Rule::RansEnd, detail)
}

/// Up to eight bytes of input in a register, with the next byte in the top bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    word: u64,
    taken_bits: u32,
}

impl Window {
    /// Decodes one symbol.
    #[inline(always)]
    pub fn next<const SLOTS: usize>(&mut self, state: &mut u32, lookup: &Lookup<SLOTS>) -> u8 {
        let bits = SLOTS.trailing_zeros();
        let slot = *state & ((1 << bits) - 1);
        let symbol = lookup.symbol(slot);
        let code = lookup.code(symbol);
        let next = code.frequency() * (*state >> bits) + slot - code.start();
        // Zero, one or two bytes bring any state back above the lower bound.
        let shift = (LOWER.ilog2() + 7).wrapping_sub((next | 1).ilog2()) & 0x18;
        let both = u64::from(next) << 32 | self.word >> 32;
        *state = ((both << shift) >> 32) as u32;
        self.word <<= shift;
        self.taken_bits += shift;
        symbol
    }
}

/// A code, prepared so that the division by its frequency becomes a
/// multiplication.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Divided {
    /// A state at or above this limit must emit bytes first.
    limit: u32,
    /// `2^shift` divided by the frequency, rounded up. States are below `2^31`, so
    /// the rounding error never changes a quotient.
    factor: u32,
    shift: u32,
    start: u16,
    /// Number of slots of all other symbols. Encoding adds this number times the
    /// quotient to the state.
    others: u16,
}

impl Divided {
    /// Prepares a code with a frequency above 0. For any other code the result is
    /// never used.
    #[allow(clippy::cast_possible_truncation)] // numbers of slots are at most 2^14
    pub fn new(code: Code, bits: u32) -> Self {
        let frequency = code.frequency().max(1);
        let shift = 31 + frequency.next_power_of_two().trailing_zeros();
        let factor = (1u64 << shift).div_ceil(frequency.into());
        Self {
            limit: frequency << (31 - bits),
            // The frequency is more than half of the next power of two, so the
            // factor fits.
            factor: u32::try_from(factor).unwrap_or(u32::MAX),
            shift,
            start: code.start() as u16,
            others: ((1 << bits) - frequency) as u16,
        }
    }
}

/// The fields of a [`Divided`] of order 0 in one word. The lower half holds the
/// factor, so that the word can be multiplied with a state directly. The upper
/// half holds the start, the number of other slots and the shift.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PackedCode(pub u64);

#[cfg(target_arch = "x86_64")]
impl PackedCode {
    /// Mask of the start and of the number of other slots, which have 14 bits
    /// each.
    pub(crate) const FIELD_MASK: i32 = 0x3FFF;
    /// Bit positions of the other fields in the upper half.
    pub(crate) const OTHERS_SHIFT: i32 = 14;
    pub(crate) const SHIFT_SHIFT: i32 = 28;
    /// The minimum shift. The field holds the excess over it, which is at most 14.
    pub(crate) const MIN_SHIFT: i32 = 31;

    pub fn new(code: Divided) -> Self {
        // The start of a value after the last one that occurs may be 2^14, which
        // does not fit, but such a value is never encoded.
        let field = |number: u16| u64::from(number & 0x3FFF);
        let shift = u64::from(code.shift - Self::MIN_SHIFT.unsigned_abs());
        let upper = field(code.start)
            | field(code.others) << Self::OTHERS_SHIFT
            | shift << Self::SHIFT_SHIFT;
        Self(upper << 32 | u64::from(code.factor))
    }
}

/// The bytes that states emit. The last byte of the stream is emitted first, so
/// the buffer is filled from its end.
#[derive(Debug)]
pub(super) struct Emitted {
    buf: Vec<u8>,
    start: usize,
    end: usize,
}

impl Emitted {
    /// Uses `buf` for encoding `symbols` symbols, with at most two emitted bytes
    /// per symbol. A buffer that is too short is replaced.
    pub(crate) fn in_buffer(mut buf: Vec<u8>, symbols: usize) -> Self {
        let end = 2 * symbols + size_of::<u64>();
        if buf.len() < end {
            buf = vec![0; end];
        }
        Self {
            start: end,
            buf,
            end,
        }
    }

    /// Encodes up to four symbols in order, each with its own state.
    #[inline(always)]
    pub fn push<'s, 'c>(&mut self, symbols: impl Iterator<Item = (&'s mut u32, &'c Divided)>) {
        // The bytes of all symbols; the last one emitted is the lowest.
        let (mut word, mut word_bits) = (0u64, 0);
        for (state, divided) in symbols {
            let shift =
                8 * (u32::from(*state >= divided.limit) + u32::from(*state >> 8 >= divided.limit));
            let [low, next, ..] = state.to_le_bytes();
            let bytes = u32::from(u16::from_be_bytes([low, next])) >> (16 - shift);
            word = word << shift | u64::from(bytes);
            word_bits += shift;
            let rest = *state >> shift;
            #[allow(clippy::cast_possible_truncation)] // the quotient is at most the dividend
            let quotient = ((u64::from(rest) * u64::from(divided.factor)) >> divided.shift) as u32;
            *state = rest + quotient * u32::from(divided.others) + u32::from(divided.start);
        }
        self.push_word(word.wrapping_shl(64 - word_bits), word_bits / 8);
    }

    /// Adds the highest `count` bytes of `word`, at most eight.
    #[inline(always)]
    pub(crate) fn push_word(&mut self, word: u64, count: u32) {
        // The other bytes of the word are overwritten by the next call.
        if let Some(dest) = self.buf[..self.start].last_chunk_mut() {
            *dest = word.to_le_bytes();
        }
        self.start -= count as usize;
    }

    /// Returns the stream, which consists of the states and the emitted bytes.
    pub fn stream(&self, states: &[u32]) -> Vec<u8> {
        let mut out = Vec::with_capacity(4 * states.len() + self.end - self.start);
        for state in states {
            out.extend_from_slice(&state.to_le_bytes());
        }
        out.extend_from_slice(&self.buf[self.start..self.end]);
        out
    }

    /// Returns the buffer for reuse.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.buf
    }
}

/// Number of bits that a state holds beyond its lower bound.
const STATE_BITS: u128 = 8;

/// The number of symbols of a plane that may still be decoded without taking
/// any bits of input.
#[derive(Debug)]
pub(super) struct Allowance {
    left: u64,
}

/// The size of a stream, which determines its capacity.
#[derive(Debug, Clone, Copy)]
pub(super) struct Supply {
    /// Number of bytes after the states.
    pub bytes: u64,
    pub states: u32,
}

impl Allowance {
    /// Returns the allowance of one plane.
    pub fn new() -> Self {
        Self {
            left: UNEARNED_PLANE_BYTES,
        }
    }

    /// Checks that a stream can hold `symbols` symbols, if no frequency exceeds
    /// `most` out of `1 << bits`. A `most` of `1 << bits` also covers tables
    /// that have not been read yet.
    pub fn check(&mut self, symbols: u64, supply: Supply, most: u32, bits: u32) -> Result<()> {
        let total = 1u32 << bits;
        let spare = u128::from((total - most).max(1));
        let held = u128::from(supply.bytes) * 8 + u128::from(supply.states) * STATE_BITS;
        // Cross-multiplied, so that nothing is rounded: symbols * (spare / total) * (23 / 16) <= held
        if u128::from(symbols) * spare * 23 <= held * u128::from(total) * 16 {
            return Ok(());
        }
        if most < total {
            return Err(Error::malformed(
                Rule::RansCapacity,
                format!(
                    "a rANS stream of {} bytes cannot encode {symbols} symbols",
                    supply.bytes
                ),
            ));
        }
        match self.left.checked_sub(symbols) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Error::limit(format!(
                "the planes of one repeated byte have over {UNEARNED_PLANE_BYTES} bytes"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn symbols_are_earned_by_bytes() {
        let supply = Supply {
            bytes: 100,
            states: 4,
        };
        let check = |n, most| Allowance::new().check(n, supply, most, 14);
        // The stream has 832 bits, and a symbol takes at least 0.71875 bits.
        assert!(check(1157, 8192).is_ok());
        let error = check(1158, 8192).unwrap_err();
        assert_eq!(error.rule(), Some(Rule::RansCapacity));
        assert!(check(u64::MAX, 16383).is_err());
    }

    #[test]
    fn free_symbols_have_a_limit() {
        let supply = Supply {
            bytes: 0,
            states: 4,
        };
        let mut allowance = Allowance::new();
        let half = UNEARNED_PLANE_BYTES / 2;
        assert!(allowance.check(half, supply, 1 << 14, 14).is_ok());
        assert!(allowance.check(half, supply, 1 << 14, 14).is_ok());
        // Symbols that the stream can nearly hold do not count against the
        // allowance.
        assert!(allowance.check(65536, supply, 1 << 14, 14).is_ok());
        let error = allowance.check(half, supply, 1 << 14, 14).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
    }
}
