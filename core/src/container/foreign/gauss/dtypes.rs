//! The dtypes that a Gauss file can name (docs/formats/gauss.md 3).

use crate::dtype::Dtype;

const IDS: [Dtype; 8] = [
    Dtype::F32,
    Dtype::F16,
    Dtype::Bf16,
    Dtype::F64,
    Dtype::I8,
    Dtype::I16,
    Dtype::I32,
    Dtype::I64,
];

pub fn from_id(id: u8) -> Option<Dtype> {
    IDS.get(usize::from(id)).copied()
}

pub fn id(dtype: Dtype) -> Option<u8> {
    (0..=u8::MAX)
        .zip(IDS)
        .find(|known| known.1 == dtype)
        .map(|known| known.0)
}

/// Returns whether the encoder codes tensors of this dtype.
pub fn is_float(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16 | Dtype::F64)
}

/// Returns the size in bytes of an element of a dtype in the table.
pub fn width(dtype: Dtype) -> u64 {
    dtype.bits() / 8
}

/// Returns the signed integer of the same size, which stores the bytes of
/// dtypes without an id.
pub fn signed_of_same_width(dtype: Dtype) -> Option<Dtype> {
    match dtype.bits() {
        8 => Some(Dtype::I8),
        16 => Some(Dtype::I16),
        32 => Some(Dtype::I32),
        64 => Some(Dtype::I64),
        _ => None,
    }
}
