//! Stack ANS of Gauss files (docs/formats/gauss.md 8): 32-bit words, a state
//! of 64 bits, probabilities of 24 bits.
//!
//! A model gives every symbol an interval of 0 to 2^24; [`Encoder`] and
//! [`Decoder`] only see intervals. The models are formulas over pure-Rust
//! floating point, the same on every machine (10.2).

mod categorical;
mod gaussian;
mod stack;

pub use categorical::Categorical;
pub use gaussian::{Gaussian, MAX_RESIDUAL};
pub use stack::{Decoder, Encoder};

/// Bits of a probability.
const BITS: u32 = 24;

/// The end of the last symbol's interval.
const TOTAL: u32 = 1 << BITS;

/// The interval that a model gives to one symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Its left end, below 2^24.
    pub left: u32,
    /// Its length, the symbol's probability times 2^24.
    pub len: u32,
}
