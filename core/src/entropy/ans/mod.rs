//! The stack ANS coder of Gauss files (docs/formats/gauss.md 8), with 32-bit
//! words, a state of 64 bits and probabilities of 24 bits.
//!
//! A model assigns every symbol an interval within 0 to 2^24. [`Encoder`] and
//! [`Decoder`] only deal with intervals. The models are formulas that use
//! floating-point functions in pure Rust, so they give the same results on
//! every machine (10.2).

use alloc::vec::Vec;

use crate::{Error, Result, Rule};

mod symbol_models;

pub(crate) use symbol_models::MAX_RESIDUAL;
pub use symbol_models::{Categorical, Gaussian};

/// Number of bits of a probability.
const BITS: u32 = 24;

/// The end of the last symbol's interval.
const TOTAL: u32 = 1 << BITS;

/// The interval that a model gives to one symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Start of the interval, below 2^24.
    pub left: u32,
    /// Length of the interval: the symbol's probability times 2^24.
    pub len: u32,
}

const WORD_BITS: u32 = 32;

/// An encoder, to which symbols are pushed from the last to the first.
#[derive(Debug, Clone, Default)]
pub struct Encoder {
    state: u64,
    words: Vec<u32>,
}

impl Encoder {
    /// Returns an encoder without symbols.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Pushes a symbol, which will be decoded before all symbols pushed
    /// earlier.
    ///
    /// # Panics
    /// If the interval is empty.
    pub fn push(&mut self, interval: Interval) {
        assert!(
            interval.len > 0,
            "a symbol of probability zero cannot be coded"
        );
        let len = u64::from(interval.len);
        if self.state >> (64 - BITS) >= len {
            self.words.push(low_word(self.state));
            self.state >>= WORD_BITS;
        }
        let (quotient, rest) = divide(self.state, len);
        self.state = (quotient << BITS) + u64::from(interval.left) + rest;
    }

    /// Returns the words of the stream, starting with the bottom of the stack.
    /// The last word is not zero.
    #[must_use]
    pub fn finish(mut self) -> Vec<u32> {
        while self.state != 0 {
            self.words.push(low_word(self.state));
            self.state >>= WORD_BITS;
        }
        self.words
    }
}

/// Returns quotient and remainder for quotients up to 2^40. Processors divide
/// floats several times faster than 64-bit integers.
#[inline]
fn divide(state: u64, len: u64) -> (u64, u64) {
    // The quotient of floats may be off by one, in which case the remainder is
    // out of range.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    let quotient = (state as f64 / len as f64) as u64;
    let rest = state.wrapping_sub(quotient.wrapping_mul(len));
    if rest.cast_signed() < 0 {
        (quotient - 1, rest.wrapping_add(len))
    } else if rest >= len {
        (quotient + 1, rest - len)
    } else {
        (quotient, rest)
    }
}

#[allow(clippy::cast_possible_truncation)] // keeps the low half
fn low_word(state: u64) -> u32 {
    state as u32
}

/// Decodes symbols from the first to the last.
#[derive(Debug, Clone)]
pub struct Decoder<'a> {
    state: u64,
    words: &'a [[u8; 4]],
    /// The number of words still on the stack.
    left: usize,
}

impl<'a> Decoder<'a> {
    /// Opens a stream of little-endian words.
    pub fn open(stream: &'a [u8]) -> Result<Self> {
        let (words, rest) = stream.as_chunks();
        if !rest.is_empty() {
            return Err(Error::invalid_input("an ANS stream is whole words"));
        }
        let left = words.len();
        let mut decoder = Self {
            state: 0,
            words,
            left,
        };
        if decoder.refill() && decoder.state == 0 {
            return Err(Error::malformed(
                Rule::GaussStream,
                "the last word of an ANS stream is zero, which no encoder writes",
            ));
        }
        decoder.refill();
        Ok(decoder)
    }

    fn refill(&mut self) -> bool {
        let Some(word) = self.top() else {
            return false;
        };
        self.state = self.state << WORD_BITS | word;
        self.left -= 1;
        true
    }

    fn top(&self) -> Option<u64> {
        let word = self.words.get(self.left.checked_sub(1)?)?;
        Some(u32::from_le_bytes(*word).into())
    }

    /// Returns the low 24 bits of the state. The next symbol is the one whose
    /// interval contains this number.
    #[must_use]
    #[inline]
    pub fn quantile(&self) -> u32 {
        low_word(self.state) & (TOTAL - 1)
    }

    /// Removes the next symbol. `interval` must be the one that contains
    /// [`Decoder::quantile`].
    #[inline]
    pub fn pop(&mut self, interval: Interval) {
        let above = u64::from(self.quantile() - interval.left);
        self.state = (self.state >> BITS) * u64::from(interval.len) + above;
        if let Some(word) = self.top() {
            // Branchless, because no processor can predict when a word is due.
            let due = u64::from(self.state >> WORD_BITS == 0);
            self.state = self.state << (due * u64::from(WORD_BITS)) | word & due.wrapping_neg();
            self.left -= usize::from(due != 0);
        }
    }

    /// Returns whether the stream is exhausted. An exhausted decoder would keep
    /// returning the symbol whose interval begins at 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state == 0 && self.left == 0
    }

    /// Checks that the stream is exhausted, as a valid one is after its last
    /// symbol.
    pub fn finish(self) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        Err(Error::malformed(
            Rule::GaussEnd,
            "the ANS coder is not empty after the last symbol; the stream is damaged or cut",
        ))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn division_is_exact(len in 1u64..=1 << 24, quotient in 0u64..1 << 40, at in 0u64..6) {
            // Remainders near the ends of their range, where an estimate may be
            // wrong.
            let rest = [0, 1, len / 2, len - 1, len.saturating_sub(2), at * len / 6];
            for rest in rest {
                let rest = rest % len;
                prop_assert_eq!(divide(quotient * len + rest, len), (quotient, rest));
            }
        }
    }

    #[test]
    fn division_is_exact_at_the_ends() {
        for len in [1, 2, 3, TOTAL.into(), (TOTAL - 1).into()] {
            for quotient in [0, 1, (1 << 40) - 1] {
                for rest in [0, len - 1] {
                    assert_eq!(divide(quotient * len + rest, len), (quotient, rest));
                }
            }
        }
    }
}
