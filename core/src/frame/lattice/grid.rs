//! The values that symbols stand for.

use alloc::vec;
use alloc::vec::Vec;

use crate::dtype::Dtype;
use crate::float::float8;

/// The values that the symbols of a frame stand for
/// (docs/formats/zxq1.md 3).
#[derive(Debug, Clone, PartialEq)]
pub enum Grid {
    /// Symbol s is s − K, and 2K + 1 is −0.
    Integers {
        /// K, from 1 to 127.
        largest: u8,
    },
    /// Symbol s is s + the group's offset − 128, and the one after the last is
    /// −0.
    OffsetIntegers {
        /// The last symbol of an integer, from 1 to 254.
        last: u8,
    },
    /// Symbol s is entry s, of 1 to 256 finite values.
    Table(Vec<f32>),
    /// The symbol is a number of the format e4m3fn.
    E4m3,
    /// The symbol is an IEEE half-precision number.
    F16,
    /// The symbol is a bfloat16 number.
    Bf16,
}

impl Grid {
    /// Returns the bytes of a symbol.
    #[must_use]
    pub fn symbol_bytes(&self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            _ => 1,
        }
    }

    /// Returns whether all symbols, as they are stored, stand for a finite
    /// value.
    #[must_use]
    pub fn holds(&self, symbols: &[u8]) -> bool {
        let most = |mask: u8| symbols.iter().fold(0, |most: u8, &s| most.max(s & mask));
        let most16 = |infinity: u16| {
            let (symbols, rest) = symbols.as_chunks::<2>();
            let magnitudes = symbols.iter().map(|&s| u16::from_le_bytes(s) & 0x7fff);
            magnitudes.fold(0, u16::max) < infinity && rest.is_empty()
        };
        match self {
            Self::Integers { largest } => most(0xff) <= 2 * largest + 1,
            Self::OffsetIntegers { last } => most(0xff) <= last + 1,
            Self::Table(values) => usize::from(most(0xff)) < values.len(),
            Self::E4m3 => most(0x7f) < 0x7f,
            Self::F16 => most16(0x7c00),
            Self::Bf16 => most16(0x7f80),
        }
    }

    /// Returns the value of each symbol of one byte, if it is looked up; 0 for
    /// those that do not exist.
    #[must_use]
    pub fn values(&self) -> Vec<f32> {
        let mut values = vec![0.0; 256];
        match self {
            Self::Table(table) => values[..table.len()].copy_from_slice(table),
            Self::E4m3 => {
                for (value, code) in values.iter_mut().zip(0..=0xff) {
                    *value = e4m3(code);
                }
            }
            _ => {}
        }
        values
    }
}

/// Returns the value of a number of the format e4m3fn; 0 for NaN.
#[must_use]
pub fn e4m3(code: u8) -> f32 {
    #[allow(clippy::cast_possible_truncation)] // a multiple of 2^-9 below 512
    let value = float8(code, Dtype::F8E4M3) as f32;
    if value.is_nan() { 0.0 } else { value }
}
