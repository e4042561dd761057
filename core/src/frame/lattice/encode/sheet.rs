//! The elements of a tensor, viewed as a matrix.

use core::ops::Range;

use crate::bytes::index;
use crate::float::{FloatType, from_bf16, from_f16, to_bf16, to_f16};

/// The bits of an element, rotated so that the sign is the lowest bit. Keys of
/// equal sign are ordered by magnitude.
pub type Key = u32;

/// The elements of a tensor in row-major order.
#[derive(Clone, Copy)]
pub struct Sheet<'a> {
    pub bytes: &'a [u8],
    pub float: FloatType,
    pub columns: u32,
}

impl<'a> Sheet<'a> {
    /// Returns the bytes of the elements of `row` in `columns`.
    pub fn bytes_of(&self, row: u64, columns: &Range<u64>) -> &'a [u8] {
        let item_bytes = self.float.len_bytes();
        let start = index(row * u64::from(self.columns) + columns.start) * item_bytes;
        &self.bytes[start..start + index(columns.end - columns.start) * item_bytes]
    }

    /// Calls `visit` with the key of each element of `row` in `columns` until it
    /// returns `false`. Returns whether it never did.
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
    /// Returns the key of positive infinity. Keys of finite elements are
    /// smaller.
    pub fn infinite_key(self) -> Key {
        match self {
            Self::Bf16 => 0x7f80 << 1,
            Self::F16 => 0x7c00 << 1,
            Self::F32 => 0x7f80_0000 << 1,
        }
    }

    /// Returns the magnitude of the finite element with the key `key`.
    fn magnitude(self, key: Key) -> f64 {
        let [a, b, ..] = (key >> 1).to_le_bytes();
        let half = u16::from_le_bytes([a, b]);
        f64::from(match self {
            Self::Bf16 => from_bf16(half),
            Self::F16 => from_f16(half),
            Self::F32 => f32::from_bits(key >> 1),
        })
    }

    /// Returns the key of the element to which `product` rounds.
    #[inline]
    pub fn key(self, product: f32) -> Key {
        match self {
            Self::Bf16 => to_bf16(product).rotate_left(1).into(),
            Self::F16 => to_f16(product).rotate_left(1).into(),
            Self::F32 => product.to_bits().rotate_left(1),
        }
    }
}

/// A nonzero element and the interval of magnitudes that round to it.
#[derive(Clone, Copy)]
pub struct Rounded {
    pub value: f64,
    pub low: f64,
    pub high: f64,
    pub is_negative: bool,
}

impl Rounded {
    /// Creates it from the key of a finite, nonzero element.
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
