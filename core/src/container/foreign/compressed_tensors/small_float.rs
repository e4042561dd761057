//! Floats of four, six and eight bits (docs/formats/compressed-tensors.md 8).
//!
//! Their values are exact in F32, so a table of values is enough to decode
//! them.

use alloc::vec::Vec;

/// A float format of at most eight bits, named by its exponent and mantissa
/// bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmallFloat {
    E2M1,
    E2M3,
    /// Has no infinities; 7F and FF are NaN.
    E4M3,
}

impl SmallFloat {
    pub fn bits(self) -> u8 {
        match self {
            Self::E2M1 => 4,
            Self::E2M3 => 6,
            Self::E4M3 => 8,
        }
    }

    /// Returns the value of each code.
    pub fn values(self) -> Vec<f32> {
        let (mantissa_bits, bias) = match self {
            Self::E2M1 => (1, 1),
            Self::E2M3 => (3, 1),
            Self::E4M3 => (3, 7),
        };
        let half = 1u32 << (self.bits() - 1);
        (0..2 * half)
            .map(|code| {
                let index = code % half;
                if self == Self::E4M3 && index == 0x7F {
                    return f32::NAN;
                }
                let exponent = index >> mantissa_bits;
                let mantissa = index & ((1 << mantissa_bits) - 1);
                let hidden = u32::from(exponent > 0) << mantissa_bits;
                // The product of an integer below 16 and a power of two between
                // 2^-9 and 2^8 is exact.
                let magnitude = (hidden + mantissa) as f32
                    * power_of_two(127 + exponent.max(1) - bias - mantissa_bits);
                if code < half { magnitude } else { -magnitude }
            })
            .collect()
    }
}

/// Returns 2^(e - 127) in BF16. For 0 this is the subnormal number below the
/// smallest normal one, for 255 infinity.
pub fn power_of_two(e: u32) -> f32 {
    match e {
        0 => f32::from_bits(1 << 22),
        e => f32::from_bits(e << 23),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fp4_magnitudes() {
        let values = SmallFloat::E2M1.values();
        assert_eq!(values[..8], [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
        assert!(values[8] == 0.0 && values[8].is_sign_negative());
        assert_eq!(values[15], -6.0);
    }

    #[test]
    fn fp6_magnitudes() {
        let values = SmallFloat::E2M3.values();
        for index in 0..32u8 {
            let expected = if index < 8 {
                f32::from(index) / 8.0
            } else {
                (1.0 + f32::from(index % 8) / 8.0) * f32::from(1u8 << (index / 8 - 1))
            };
            assert_eq!(values[usize::from(index)], expected);
            assert_eq!(values[usize::from(index) + 32], -expected);
        }
        assert_eq!(values[31], 7.5);
    }

    #[test]
    fn fp8_ends_at_448() {
        let values = SmallFloat::E4M3.values();
        assert_eq!(values[0x7E], 448.0);
        assert_eq!(values[0x01], 1.0 / 512.0);
        assert_eq!(values[0xB8], -1.0);
        assert!(values[0x7F].is_nan() && values[0xFF].is_nan());
        assert_eq!(values.iter().filter(|v| v.is_nan()).count(), 2);
    }

    #[test]
    fn scales_at_the_ends() {
        assert_eq!(power_of_two(127), 1.0);
        assert_eq!(power_of_two(0) * 2.0, power_of_two(1));
        assert_eq!(power_of_two(254), 2f32.powi(127));
        assert_eq!(power_of_two(255), f32::INFINITY);
    }
}
