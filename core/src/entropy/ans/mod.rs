//! The stack ANS coder of Gauss files (docs/formats/gauss.md 8), with 32-bit
//! words, a state of 64 bits and probabilities of 24 bits.
//!
//! A model assigns every symbol an interval within 0 to 2^24. [`Encoder`] and
//! [`Decoder`] only deal with intervals. The models are formulas that use
//! floating-point functions in pure Rust, so they give the same results on
//! every machine (10.2).

mod categorical;
mod gaussian;
mod stack;

pub use categorical::Categorical;
pub use gaussian::{Gaussian, MAX_RESIDUAL};
pub use stack::{Decoder, Encoder};

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
