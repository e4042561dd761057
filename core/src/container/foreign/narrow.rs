//! Elements that are smaller than a byte. They are stored packed, with the
//! first element in the lowest bits, and read as elements of a dtype of whole
//! bytes (docs/formats/onnx.md 3).

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::dtype::Dtype;
use crate::{Result, bytes};

/// A type of elements that are smaller than a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum NarrowType {
    /// Signed integers of 4 bits, read as `I8`.
    I4,
    /// Unsigned integers of 4 bits, read as `U8`.
    U4,
    /// Floats of 4 bits with 2 bits of exponent, read as `F32`.
    F4,
    /// Signed integers of 2 bits, read as `I8`.
    I2,
    /// Unsigned integers of 2 bits, read as `U8`.
    U2,
}

/// The values of 4-bit floats without their sign.
const F4_VALUES: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

impl NarrowType {
    /// Returns the size of a stored element in bits.
    #[must_use]
    pub fn bits(self) -> u64 {
        match self {
            Self::I4 | Self::U4 | Self::F4 => 4,
            Self::I2 | Self::U2 => 2,
        }
    }

    /// Returns the dtype of the values.
    #[must_use]
    pub fn dtype(self) -> Dtype {
        match self {
            Self::I4 | Self::I2 => Dtype::I8,
            Self::U4 | Self::U2 => Dtype::U8,
            Self::F4 => Dtype::F32,
        }
    }

    /// Returns the length in bytes of the values of one stored byte.
    pub(super) fn values_per_byte(self) -> u64 {
        8 / self.bits() * (self.dtype().bits() / 8)
    }

    /// Converts stored bytes to values, including those of the padding in the
    /// last byte.
    pub(super) fn widen(self, stored: &[u8]) -> Result<Vec<u8>> {
        let len_bytes = (stored.len() as u64).saturating_mul(self.values_per_byte());
        let mut out = bytes::with_capacity(len_bytes)?;
        for byte in stored {
            let codes = (0..8 / self.bits()).map(|number| byte >> (number * self.bits()));
            match self {
                Self::U4 => out.extend(codes.map(|code| code & 15)),
                Self::U2 => out.extend(codes.map(|code| code & 3)),
                // The highest bit of the code is its sign.
                Self::I4 => out.extend(codes.map(|code| (code & 15 ^ 8).wrapping_sub(8))),
                Self::I2 => out.extend(codes.map(|code| (code & 3 ^ 2).wrapping_sub(2))),
                Self::F4 => {
                    for code in codes {
                        let value = F4_VALUES[usize::from(code & 7)];
                        let value = if code & 8 == 0 { value } else { -value };
                        out.extend_from_slice(&value.to_le_bytes());
                    }
                }
            }
        }
        Ok(out)
    }
}
