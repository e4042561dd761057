//! The grids: mappings from symbols to values.

use alloc::vec;
use alloc::vec::Vec;

use crate::dtype::Dtype;
use crate::float::float8;

/// The mapping from the symbols of a frame to values (docs/formats/zxq1.md 3).
#[derive(Debug, Clone, PartialEq)]
pub enum Grid {
    /// Symbol s means s − K, and symbol 2K + 1 means −0.
    Integers {
        /// K, from 1 to 127.
        largest: u8,
    },
    /// Symbol s means s + (the group's offset) − 128, and symbol `last` + 1
    /// means −0.
    OffsetIntegers {
        /// The last symbol that means an integer, from 1 to 254.
        last: u8,
    },
    /// Symbol s means entry s of a table of 1 to 256 finite values.
    Table(Vec<f32>),
    /// The symbol is a float in the format e4m3fn.
    E4m3,
    /// The symbol is an IEEE half-precision float.
    F16,
    /// The symbol is a bfloat16 float.
    Bf16,
}

impl Grid {
    /// Returns the size of a symbol in bytes.
    #[must_use]
    pub(crate) fn symbol_bytes(&self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            _ => 1,
        }
    }

    /// Returns whether every symbol in `symbols`, in stored form, has a finite
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

    /// Returns the value of every one-byte symbol of a grid that is decoded by
    /// table lookup. Unassigned symbols, and all symbols of other grids, have
    /// the value 0.
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

/// Returns the value of the e4m3fn number `code`, or 0 for NaN.
#[must_use]
pub fn e4m3(code: u8) -> f32 {
    #[allow(clippy::cast_possible_truncation)] // exact: a multiple of 2^-9 below 512
    let value = float8(code, Dtype::F8E4M3) as f32;
    if value.is_nan() { 0.0 } else { value }
}
