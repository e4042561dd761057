//! The table of element types (docs/formats/onnx.md 3).

use serde::{Deserialize, Serialize};

use crate::container::foreign::narrow::NarrowType;
use crate::dtype::Dtype;

/// The field of a tensor that stores its values as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TypedField {
    /// `float_data`: numbers of 4 bytes.
    Float,
    /// `int32_data`: numbers of variable length.
    Int32,
    /// `int64_data`: numbers of variable length.
    Int64,
    /// `double_data`: numbers of 8 bytes.
    Double,
    /// `uint64_data`: numbers of variable length.
    Uint64,
}

impl TypedField {
    pub const ALL: [Self; 5] = [
        Self::Float,
        Self::Int32,
        Self::Int64,
        Self::Double,
        Self::Uint64,
    ];

    /// Returns the number of the field in a tensor.
    pub fn number(self) -> u64 {
        match self {
            Self::Float => 4,
            Self::Int32 => 5,
            Self::Int64 => 7,
            Self::Double => 10,
            Self::Uint64 => 11,
        }
    }

    /// Returns the length in bytes of one number, or `None` if lengths vary.
    pub fn fixed_bytes(self) -> Option<u64> {
        match self {
            Self::Float => Some(4),
            Self::Double => Some(8),
            Self::Int32 | Self::Int64 | Self::Uint64 => None,
        }
    }
}

/// The type of elements in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OnnxType {
    /// Elements that are stored as their values.
    Whole(Dtype),
    /// Elements that are smaller than a byte.
    Narrow(NarrowType),
}

impl OnnxType {
    /// Returns the type with this number, or the name of a type that cannot be
    /// read; `None` for numbers without a meaning.
    pub(super) fn from_number(number: u64) -> Option<Result<Self, &'static str>> {
        Some(Ok(match number {
            1 => Self::Whole(Dtype::F32),
            2 => Self::Whole(Dtype::U8),
            3 => Self::Whole(Dtype::I8),
            4 => Self::Whole(Dtype::U16),
            5 => Self::Whole(Dtype::I16),
            6 => Self::Whole(Dtype::I32),
            7 => Self::Whole(Dtype::I64),
            8 => return Some(Err("texts")),
            9 => Self::Whole(Dtype::Bool),
            10 => Self::Whole(Dtype::F16),
            11 => Self::Whole(Dtype::F64),
            12 => Self::Whole(Dtype::U32),
            13 => Self::Whole(Dtype::U64),
            14 => Self::Whole(Dtype::C64),
            15 => return Some(Err("complex numbers of 128 bits")),
            16 => Self::Whole(Dtype::Bf16),
            17 => Self::Whole(Dtype::F8E4M3),
            18 => Self::Whole(Dtype::F8E4M3Fnuz),
            19 => Self::Whole(Dtype::F8E5M2),
            20 => Self::Whole(Dtype::F8E5M2Fnuz),
            21 => Self::Narrow(NarrowType::U4),
            22 => Self::Narrow(NarrowType::I4),
            23 => Self::Narrow(NarrowType::F4),
            24 => Self::Whole(Dtype::F8E8M0),
            25 => Self::Narrow(NarrowType::U2),
            26 => Self::Narrow(NarrowType::I2),
            27 | 28 => return Some(Err("floats of 6 bits")),
            _ => return None,
        }))
    }

    /// Returns the dtype of the values.
    #[must_use]
    pub fn dtype(self) -> Dtype {
        match self {
            Self::Whole(dtype) => dtype,
            Self::Narrow(narrow) => narrow.dtype(),
        }
    }

    /// Returns the size of a stored element in bits.
    #[must_use]
    pub fn stored_bits(self) -> u64 {
        match self {
            Self::Whole(dtype) => dtype.bits(),
            Self::Narrow(narrow) => narrow.bits(),
        }
    }

    /// Returns the name of the type in ONNX if its values are read as another
    /// type.
    #[must_use]
    pub fn narrow_name(self) -> Option<&'static str> {
        match self {
            Self::Whole(_) => None,
            Self::Narrow(NarrowType::U4) => Some("UINT4"),
            Self::Narrow(NarrowType::I4) => Some("INT4"),
            Self::Narrow(NarrowType::F4) => Some("FLOAT4E2M1"),
            Self::Narrow(NarrowType::U2) => Some("UINT2"),
            Self::Narrow(NarrowType::I2) => Some("INT2"),
        }
    }

    /// Returns the field that stores the values as numbers, unless they are in
    /// `raw_data`.
    pub(super) fn field(self) -> TypedField {
        match self {
            Self::Whole(Dtype::F32 | Dtype::C64) => TypedField::Float,
            Self::Whole(Dtype::F64) => TypedField::Double,
            Self::Whole(Dtype::I64) => TypedField::Int64,
            Self::Whole(Dtype::U32 | Dtype::U64) => TypedField::Uint64,
            Self::Whole(_) | Self::Narrow(_) => TypedField::Int32,
        }
    }
}
