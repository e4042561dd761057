//! The elements of a tensor as numbers, for printing and for NumPy, and their statistics.

use half::{bf16, f16};
use serde::{Serialize, Serializer};
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

/// Number of a tensor's first values that are shown.
const FIRST: usize = 8;

/// A value that is shown without loss of precision.
#[derive(Clone, Copy, PartialEq)]
pub enum Number {
    Integer(i128),
    Float(f64),
}

/// Statistics of all values except NaN. If all values are NaN, the extremes and the
/// mean are `None`.
pub struct Stats {
    pub min: Option<Number>,
    pub max: Option<Number>,
    pub mean: Option<f64>,
    pub first: Vec<Number>,
}

impl Stats {
    /// Returns the statistics of a tensor, or `None` if it is empty or its dtype is not
    /// shown as numbers.
    pub fn of(tensor: &Tensor) -> Option<Self> {
        let first = first(tensor)?;
        if first.is_empty() {
            return None;
        }
        let numbers = numbers(tensor)?.filter(|value| !value.is_nan());
        let (mut min, mut max, mut sum, mut count) = (f64::INFINITY, f64::NEG_INFINITY, 0.0, 0.0);
        for value in numbers {
            min = min.min(value);
            max = max.max(value);
            sum += value;
            count += 1.0;
        }
        let float = |value| (count > 0.0).then_some(Number::Float(value));
        let long = |pick: fn(Longs<'_>) -> Option<i128>| {
            let integers = long_integers(tensor)?;
            pick(integers).map(Number::Integer)
        };
        Some(Self {
            min: long(|integers| integers.min()).or_else(|| float(min)),
            max: long(|integers| integers.max()).or_else(|| float(max)),
            mean: (count > 0.0).then_some(sum / count),
            first,
        })
    }

    /// Returns the statistics as keys and values.
    pub fn facts(&self) -> [(&'static str, String); 4] {
        let first: Vec<String> = self.first.iter().copied().map(text).collect();
        let known = |number: Option<Number>| number.map_or("–".into(), text);
        [
            ("min", known(self.min)),
            ("max", known(self.max)),
            ("mean", known(self.mean.map(Number::Float))),
            ("first", first.join("  ")),
        ]
    }
}

type Longs<'a> = Box<dyn Iterator<Item = i128> + 'a>;

fn first(tensor: &Tensor) -> Option<Vec<Number>> {
    if let Some(integers) = long_integers(tensor) {
        return Some(integers.take(FIRST).map(Number::Integer).collect());
    }
    let numbers = numbers(tensor)?;
    Some(numbers.take(FIRST).map(Number::Float).collect())
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Integer(value) => match (i64::try_from(value), u64::try_from(value)) {
                (Ok(value), _) => serializer.serialize_i64(value),
                (_, Ok(value)) => serializer.serialize_u64(value),
                _ => serializer.serialize_none(),
            },
            // JSON has no NaN and no infinity.
            Self::Float(value) if !value.is_finite() => serializer.serialize_none(),
            Self::Float(value) => serializer.serialize_f64(value),
        }
    }
}

fn text(number: Number) -> String {
    match number {
        Number::Integer(value) => value.to_string(),
        Number::Float(value) => match value.abs() {
            0.0 => "0".into(),
            size if (1e-4..1e6).contains(&size) => format!("{value:.6}"),
            _ => format!("{value:.4e}"),
        },
    }
}
