//! An upper bound on the number of symbols that a stream can hold.
//!
//! The state of a coder is at least 2^23 and less than 2^31, so a state holds 8
//! bits in addition to the bytes after it. A symbol of frequency `f` out of
//! `2^R` divides the state by `2^R / f`, which takes `log2(2^R / f) > 1.4427 *
//! (2^R - f) / 2^R` bits. Integer rounding of the state reduces that by less
//! than one part in 512. In any order of symbols, more than `23/16 * (2^R - f)
//! / 2^R` bits per symbol remain.
//!
//! A symbol with the full frequency takes no bits at all. Such tables are
//! treated as if the frequency were `2^R - 1`. Symbols beyond the resulting
//! capacity are not justified by any input and are counted against
//! [`UNEARNED_PLANE_BYTES`].

use alloc::format;

use crate::limits::UNEARNED_PLANE_BYTES;
use crate::{Error, Result, Rule};

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
    /// Number of states.
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
