//! The elements of a tensor as a matrix.

use core::ops::Range;

use crate::bytes::index;
use crate::float::{FloatType, from_bf16, from_f16, to_bf16, to_f16};

/// The bits of an element, its sign in the lowest: keys of one sign are in order
/// of magnitude.
pub type Key = u32;

/// The elements of a tensor.
#[derive(Clone, Copy)]
pub struct Sheet<'a> {
    pub bytes: &'a [u8],
    pub float: FloatType,
    pub columns: u32,
}

impl<'a> Sheet<'a> {
    /// Returns the bytes of some columns of a row.
    pub fn bytes_of(&self, row: u64, columns: &Range<u64>) -> &'a [u8] {
        let item_bytes = self.float.len_bytes();
        let start = index(row * u64::from(self.columns) + columns.start) * item_bytes;
        &self.bytes[start..start + index(columns.end - columns.start) * item_bytes]
    }

    /// Calls `visit` with the key of each of some columns of a row, until it
    /// returns `false`, and returns whether it did not.
    pub fn each_key(
        &self,
        row: u64,
        columns: &Range<u64>,
        mut visit: impl FnMut(Key) -> bool,
    ) -> bool {
        let bytes = self.bytes_of(row, columns);
        match self.float {
            FloatType::Bf16 | FloatType::F16 => bytes
                .as_chunks::<2>()
                .0
                .iter()
                .all(|&bits| visit(u16::from_le_bytes(bits).rotate_left(1).into())),
            FloatType::F32 => bytes
                .as_chunks::<4>()
                .0
                .iter()
                .all(|&bits| visit(u32::from_le_bytes(bits).rotate_left(1))),
        }
    }
}

impl FloatType {
    /// Returns the key of infinity: those of finite elements are less.
    pub fn infinite_key(self) -> Key {
        match self {
            Self::Bf16 => 0x7f80 << 1,
            Self::F16 => 0x7c00 << 1,
            Self::F32 => 0x7f80_0000 << 1,
        }
    }

    /// Returns the magnitude of the element with that key, which is finite.
    fn magnitude(self, key: Key) -> f64 {
        let [a, b, ..] = (key >> 1).to_le_bytes();
        let half = u16::from_le_bytes([a, b]);
        f64::from(match self {
            Self::Bf16 => from_bf16(half),
            Self::F16 => from_f16(half),
            Self::F32 => f32::from_bits(key >> 1),
        })
    }

    /// Returns the key of the element that a product is rounded to.
    #[inline]
    pub fn key(self, product: f32) -> Key {
        match self {
            Self::Bf16 => to_bf16(product).rotate_left(1).into(),
            Self::F16 => to_f16(product).rotate_left(1).into(),
            Self::F32 => product.to_bits().rotate_left(1),
        }
    }
}

/// A nonzero element, and the magnitudes that are rounded to it.
#[derive(Clone, Copy)]
pub struct Rounded {
    pub value: f64,
    pub low: f64,
    pub high: f64,
    pub is_negative: bool,
}

impl Rounded {
    /// Takes the key of a finite element other than zero.
    pub fn of(float: FloatType, key: Key) -> Self {
        let value = float.magnitude(key);
        let below = (value - float.magnitude(key - 2)) / 2.0;
        let above = match key + 2 < float.infinite_key() {
            true => (float.magnitude(key + 2) - value) / 2.0,
            false => below,
        };
        Self {
            value,
            low: value - below,
            high: value + above,
            is_negative: key & 1 != 0,
        }
    }
}
