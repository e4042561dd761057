//! The elements of a tensor as numbers, for printing and for NumPy.

use half::{bf16, f16};
use zstn::Tensor;
use zstn_core::dtype::Dtype;

/// Returns the elements as `f64`, which is exact for all but large 64-bit integers.
/// Returns `None` for dtypes that are not shown as numbers (sub-byte and 8-bit floats,
/// complex).
pub fn numbers(tensor: &Tensor) -> Option<Box<dyn Iterator<Item = f64> + '_>> {
    fn each<const N: usize>(
        tensor: &Tensor,
        number: impl Fn([u8; N]) -> f64 + 'static,
    ) -> Option<Box<dyn Iterator<Item = f64> + '_>> {
        Some(Box::new(
            tensor
                .bytes
                .as_chunks::<N>()
                .0
                .iter()
                .map(move |c| number(*c)),
        ))
    }
    match tensor.dtype {
        Dtype::Bool | Dtype::U8 => each(tensor, |[b]: [u8; 1]| b.into()),
        Dtype::I8 => each(tensor, |b| i8::from_le_bytes(b).into()),
        Dtype::I16 => each(tensor, |b| i16::from_le_bytes(b).into()),
        Dtype::U16 => each(tensor, |b| u16::from_le_bytes(b).into()),
        Dtype::I32 => each(tensor, |b| i32::from_le_bytes(b).into()),
        Dtype::U32 => each(tensor, |b| u32::from_le_bytes(b).into()),
        Dtype::I64 => each(tensor, |b| i64::from_le_bytes(b) as f64),
        Dtype::U64 => each(tensor, |b| u64::from_le_bytes(b) as f64),
        Dtype::F16 => each(tensor, |b| f16::from_le_bytes(b).into()),
        Dtype::Bf16 => each(tensor, |b| bf16::from_le_bytes(b).into()),
        Dtype::F32 => each(tensor, |b| f32::from_le_bytes(b).into()),
        Dtype::F64 => each(tensor, f64::from_le_bytes),
        _ => None,
    }
}

/// Returns the elements of a dtype whose integers may not be exact as `f64`, or `None`
/// for other dtypes.
pub fn long_integers(tensor: &Tensor) -> Option<Box<dyn Iterator<Item = i128> + '_>> {
    let chunks = tensor.bytes.as_chunks::<8>().0.iter();
    match tensor.dtype {
        Dtype::I64 => Some(Box::new(chunks.map(|c| i64::from_le_bytes(*c).into()))),
        Dtype::U64 => Some(Box::new(chunks.map(|c| u64::from_le_bytes(*c).into()))),
        _ => None,
    }
}

/// Returns NumPy's name of a dtype, or `None` if NumPy has no such dtype.
pub fn numpy_name(dtype: Dtype) -> Option<&'static str> {
    Some(match dtype {
        Dtype::Bool => "|b1",
        Dtype::U8 => "|u1",
        Dtype::I8 => "|i1",
        Dtype::I16 => "<i2",
        Dtype::U16 => "<u2",
        Dtype::F16 => "<f2",
        Dtype::I32 => "<i4",
        Dtype::U32 => "<u4",
        Dtype::F32 => "<f4",
        Dtype::C64 => "<c8",
        Dtype::F64 => "<f8",
        Dtype::I64 => "<i8",
        Dtype::U64 => "<u8",
        _ => return None,
    })
}

/// Converts bfloat16 to little-endian `f32`, which is exact.
pub fn widened(bf16: &[u8]) -> Vec<u8> {
    let pairs = bf16.as_chunks::<2>().0.iter();
    pairs.flat_map(|&[low, high]| [0, 0, low, high]).collect()
}
