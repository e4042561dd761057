//! Element types and their names (docs/formats/ztensor.md 4, 7.2 and 8.2).

use alloc::format;

use serde::{Deserialize, Serialize};

use crate::dtype::Dtype;
use crate::{Error, Result, Rule};

/// The element type of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Element {
    /// An element type that has a [`Dtype`].
    Dtype(Dtype),
    /// A complex number of two double-precision floats, which has no [`Dtype`].
    Complex128,
}

impl Element {
    /// Returns the dtype. Complex numbers without a dtype return the dtype of their
    /// real and imaginary parts.
    #[must_use]
    pub fn dtype(self) -> Dtype {
        match self {
            Self::Dtype(dtype) => dtype,
            Self::Complex128 => Dtype::F64,
        }
    }

    /// Returns the size of one element in bytes; `None` for elements smaller
    /// than a byte.
    #[must_use]
    pub(crate) fn width_bytes(self) -> Option<usize> {
        match self {
            Self::Dtype(dtype) => dtype.len_bytes(),
            Self::Complex128 => Some(16),
        }
    }

    /// Returns the length of `count` elements in bytes; `None` if it exceeds 64
    /// bits.
    #[must_use]
    pub fn len_bytes(self, count: u64) -> Option<u64> {
        match self.width_bytes() {
            Some(width) => count.checked_mul(width as u64),
            // Two elements share a byte, and the last one may have a byte to
            // itself.
            None => Some(count.div_ceil(2)),
        }
    }

    /// Returns the element type called `name` in versions 0.1 and 1.0.
    pub(super) fn long(name: &str) -> Result<Self> {
        match LONG.iter().find(|(_, long)| *long == name) {
            Some((dtype, _)) => Ok(Self::Dtype(*dtype)),
            None => Err(unknown("dtype", name)),
        }
    }

    /// Returns the element type called `name` in versions 1.1, 1.2 and 2,
    /// interpreted as the `logical` type if there is one. Version 2 (`has_bool`
    /// is false) spells BOOL as a logical type.
    pub(super) fn short(name: &str, logical: Option<&str>, has_bool: bool) -> Result<Self> {
        let stored = SHORT
            .iter()
            .find(|(dtype, short)| *short == name && (has_bool || *dtype != Dtype::Bool))
            .map(|(dtype, _)| *dtype)
            .ok_or_else(|| unknown("dtype", name))?;
        let Some(logical) = logical else {
            return Ok(Self::Dtype(stored));
        };
        let (over, element) = match logical {
            "bool" => (Dtype::U8, Self::Dtype(Dtype::Bool)),
            "f8_e4m3fn" => (Dtype::U8, Self::Dtype(Dtype::F8E4M3)),
            "f8_e5m2" => (Dtype::U8, Self::Dtype(Dtype::F8E5M2)),
            "f8_e4m3fnuz" => (Dtype::U8, Self::Dtype(Dtype::F8E4M3Fnuz)),
            "f8_e5m2fnuz" => (Dtype::U8, Self::Dtype(Dtype::F8E5M2Fnuz)),
            "f8_e8m0" => (Dtype::U8, Self::Dtype(Dtype::F8E8M0)),
            "f4_e2m1" => (Dtype::U8, Self::Dtype(Dtype::F4)),
            "complex64" => (Dtype::F32, Self::Dtype(Dtype::C64)),
            "complex128" => (Dtype::F64, Self::Complex128),
            _ => return Err(unknown("type", logical)),
        };
        if over != stored {
            return Err(Error::malformed(
                Rule::ZTensorDtype,
                format!("the type {logical} is not stored as {name}"),
            ));
        }
        Ok(element)
    }
}

fn unknown(what: &str, name: &str) -> Error {
    Error::malformed(
        Rule::ZTensorDtype,
        format!("the {what} `{}` does not exist", name.escape_default()),
    )
}

/// Returns the name of `dtype` in version 0.1, if it is one of the thirteen
/// dtypes there.
pub(super) fn long_name(dtype: Dtype) -> Option<&'static str> {
    let found = LONG.iter().find(|(known, _)| *known == dtype);
    found.map(|(_, name)| *name)
}

const LONG: [(Dtype, &str); 13] = [
    (Dtype::F64, "float64"),
    (Dtype::F32, "float32"),
    (Dtype::F16, "float16"),
    (Dtype::Bf16, "bfloat16"),
    (Dtype::I64, "int64"),
    (Dtype::I32, "int32"),
    (Dtype::I16, "int16"),
    (Dtype::I8, "int8"),
    (Dtype::U64, "uint64"),
    (Dtype::U32, "uint32"),
    (Dtype::U16, "uint16"),
    (Dtype::U8, "uint8"),
    (Dtype::Bool, "bool"),
];

const SHORT: [(Dtype, &str); 13] = [
    (Dtype::F64, "f64"),
    (Dtype::F32, "f32"),
    (Dtype::F16, "f16"),
    (Dtype::Bf16, "bf16"),
    (Dtype::I64, "i64"),
    (Dtype::I32, "i32"),
    (Dtype::I16, "i16"),
    (Dtype::I8, "i8"),
    (Dtype::U64, "u64"),
    (Dtype::U32, "u32"),
    (Dtype::U16, "u16"),
    (Dtype::U8, "u8"),
    (Dtype::Bool, "bool"),
];
