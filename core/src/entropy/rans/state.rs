//! One state: symbols out (5.2), symbols in (5.3), and the bounds it keeps.

use alloc::format;
use alloc::vec::Vec;

use super::table::{Code, Lookup};
use crate::bytes::Cursor;
use crate::{Error, Result, Rule};

/// Lower bound of a state, and its value before the first and after the last
/// symbol.
pub(super) const LOWER: u32 = 1 << 23;
const UPPER: u32 = 1 << 31;

/// Symbols one [`Window`] lasts for: each takes at most two bytes.
pub(super) const WINDOW_SYMBOLS: usize = 4;

/// Reads an initial state (5.4). All arithmetic below relies on its range.
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

/// The bytes a decoder has not consumed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    /// The next eight bytes, zeros beyond the end.
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

    /// Moves past what was taken from `window`.
    #[inline]
    pub fn consume(&mut self, window: Window) -> Result<()> {
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

fn end(detail: &'static str) -> Error {
    Error::malformed(Rule::RansEnd, detail)
}

/// Up to eight bytes of input in a register, the next one on top.
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
        // None, one or two bytes bring any state back over the lower bound.
        let shift = 8 * (u32::from(next < LOWER) + u32::from(next < LOWER >> 8));
        #[allow(clippy::cast_possible_truncation)] // at most 16 bits
        let fresh = ((self.word >> 32) >> (32 - shift)) as u32;
        *state = next << shift | fresh;
        self.word <<= shift;
        self.taken_bits += shift;
        symbol
    }
}

/// Encodes one symbol; `emitted` collects bytes last first.
#[inline(always)]
pub(super) fn push(state: &mut u32, code: Code, bits: u32, emitted: &mut Vec<u8>) {
    let limit = code.frequency() << (31 - bits);
    while *state >= limit {
        emitted.push(state.to_le_bytes()[0]);
        *state >>= 8;
    }
    let (quotient, rest) = (*state / code.frequency(), *state % code.frequency());
    *state = (quotient << bits) + rest + code.start();
}

/// States in front, then what was emitted in the order a decoder wants it.
pub(super) fn assemble(states: &[u32], emitted: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 * states.len() + emitted.len());
    for state in states {
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.extend(emitted.iter().rev());
    out
}
