//! A tensor: its layout and its parts (docs/formats/ztensor.md 6.1, 7.3 and
//! 8.3), and the type of its elements (docs/formats/ztensor.md 4, 7.2 and 8.2).

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::ByteOrder;
use super::footer::ZTensorVersion;
use super::part::{Part, PartCoding};
use super::{Field, sparse};
use crate::dtype::Dtype;
use crate::engine::Engine;
use crate::limits::DIMENSIONS;
use crate::tensor::element_count;
use crate::{Error, Result, Rule, bytes};

/// The layout of a tensor, which determines its parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum TensorLayout {
    /// One part, `data`, with all elements in row-major order.
    Dense,
    /// Version 0.1: one part, `data`, with a record of coordinates and a value
    /// for each element.
    PackedCoo,
    /// Version 0.1: one part, `data`, with the row pointers, the columns and
    /// the values.
    PackedCsr,
    /// Versions 1 and 2: the parts `values` and `coords`; the coordinates are
    /// stored dimension by dimension.
    Coo,
    /// Versions 1 and 2: the parts `values`, `indices` (the columns) and
    /// `indptr` (the row pointers).
    Csr,
    /// A layout that is not supported. Its parts can be read, but the tensor
    /// cannot.
    Other(String),
}

/// A tensor as described in the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ManifestTensor {
    /// The name, unique within the file.
    pub name: String,
    /// The shape, outermost dimension first. Empty for a scalar.
    pub shape: Vec<u64>,
    /// The layout, which determines the parts.
    pub layout: TensorLayout,
    /// The parts, at least one.
    pub parts: Vec<Part>,
    /// The custom keys of version 0.1, or the attributes of later versions.
    pub fields: Vec<Field>,
    /// The version of the file, on which the rules for sparse layouts depend.
    pub(super) version: ZTensorVersion,
}

impl ManifestTensor {
    /// Removes the fields, which decoding does not require.
    #[cfg(feature = "decode-task")]
    pub(crate) fn without_fields(self) -> Self {
        Self {
            fields: Vec::new(),
            ..self
        }
    }

    /// Returns the tensor as an entry of the shard that contains all its parts.
    pub(crate) fn of_shard(mut self) -> Self {
        for part in &mut self.parts {
            part.shard = None;
        }
        self
    }

    /// Returns the type of the elements. For an unknown layout, this is the
    /// element type of the part `values` or else of the first part.
    #[must_use]
    pub fn element(&self) -> ElementType {
        let values = self.part("values").or_else(|| self.part("data"));
        let part = values.or_else(|| self.parts.first());
        part.map_or(ElementType::Dtype(Dtype::U8), |part| part.element)
    }

    /// Returns the number of elements, including those that a sparse layout
    /// omits.
    #[must_use]
    pub fn element_count(&self) -> u64 {
        // Parsing the manifest has checked that the number fits.
        element_count(&self.shape).unwrap_or(u64::MAX)
    }

    /// Returns the length of the dense tensor in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        // Parsing the manifest has checked that the length fits.
        let len = self.element().len_bytes(self.element_count());
        len.unwrap_or(u64::MAX)
    }

    /// Returns the part with this role, if there is one.
    #[must_use]
    pub fn part(&self, role: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.role == role)
    }

    /// Returns the range of the file from the first part to the last. Writers
    /// store the parts of a tensor next to each other.
    #[must_use]
    pub fn stored(&self) -> Range<u64> {
        let here = || self.parts.iter().filter(|part| part.shard.is_none());
        let start = here().map(|part| part.stored.start).min().unwrap_or(0);
        let end = here().map(|part| part.stored.end).max().unwrap_or(0);
        start..end
    }

    /// Returns the stored bytes of `part`, given the bytes of
    /// [`ManifestTensor::stored`].
    pub(super) fn stored_of<'a>(&self, part: &Part, stored: &'a [u8]) -> &'a [u8] {
        if part.shard.is_some() {
            return &[];
        }
        let start = self.stored().start;
        bytes::part(stored, part.stored.start - start..part.stored.end - start)
    }

    /// Decodes the elements, little-endian and row-major, from the bytes of
    /// [`ManifestTensor::stored`]. Sparse layouts are made dense, up to a limit.
    /// Borrows the bytes if they need no decoding. Offsets in errors are
    /// relative to the start of those bytes.
    pub fn decode<'a, E: Engine>(&self, engine: &E, stored: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        let range = self.stored();
        if stored.len() as u64 != range.end - range.start {
            return Err(Error::invalid_input(
                "the input does not have the tensor's stored length",
            ));
        }
        let bytes = match &self.layout {
            TensorLayout::Dense => {
                let part = self.required("data")?;
                let stored = self.stored_of(part, stored);
                part.decode(engine, stored, self.len_bytes())?
            }
            TensorLayout::PackedCoo
            | TensorLayout::PackedCsr
            | TensorLayout::Coo
            | TensorLayout::Csr => sparse::decode(self, engine, stored)?.into(),
            TensorLayout::Other(name) => {
                return Err(Error::unsupported(format!(
                    "this version cannot read the layout `{}`",
                    name.escape_default()
                )));
            }
        };
        if self.element() == ElementType::Dtype(Dtype::Bool) {
            return self.truth_values(bytes);
        }
        if self.has_unused_half() && bytes.last().is_some_and(|last| last >> 4 != 0) {
            return Err(Error::malformed(
                Rule::ZTensorPadding,
                "the unused half of the last byte is not zero",
            ));
        }
        Ok(bytes)
    }

    /// Returns the range of the file whose bytes are the decoded tensor, if
    /// there is one and no checksum covers it. Any range of such a tensor can
    /// be read without the rest.
    #[must_use]
    pub fn plain(&self) -> Option<Range<u64>> {
        let part = self
            .part("data")
            .filter(|_| self.layout == TensorLayout::Dense)?;
        let len_bytes = self.len_bytes();
        let is_swapped =
            part.element.width_bytes() != Some(1) && part.coding == PartCoding::Raw(ByteOrder::Big);
        let is_plain = matches!(part.coding, PartCoding::Raw(_))
            && !is_swapped
            && part.shard.is_none()
            && part.checksum.is_none()
            && part.stored_len_bytes() == len_bytes
            && part.decoded_len_bytes.is_none_or(|len| len == len_bytes)
            && part.is_known()
            // These bytes have to be checked or normalised.
            && self.element() != ElementType::Dtype(Dtype::Bool)
            && !self.has_unused_half();
        is_plain.then(|| part.stored.clone())
    }

    /// Normalises truth values. Version 2 allows only 0 and 1; in earlier
    /// versions every value but 0 is true.
    fn truth_values<'a>(&self, bytes: Cow<'a, [u8]>) -> Result<Cow<'a, [u8]>> {
        match bytes.iter().find(|&&byte| byte > 1) {
            None => Ok(bytes),
            Some(byte) if self.version == ZTensorVersion::V2 => Err(Error::malformed(
                Rule::ZTensorBool,
                format!("{byte} is not a boolean"),
            )),
            Some(_) => Ok(bytes.iter().map(|&byte| u8::from(byte != 0)).collect()),
        }
    }

    /// Returns whether the last byte holds one element of four bits instead of
    /// two; version 2 requires its other half to be zero.
    fn has_unused_half(&self) -> bool {
        self.version == ZTensorVersion::V2
            && self.element() == ElementType::Dtype(Dtype::F4)
            && !self.element_count().is_multiple_of(2)
    }

    pub(super) fn required(&self, role: &str) -> Result<&Part> {
        self.part(role).ok_or_else(|| {
            Error::malformed(
                Rule::ZTensorField,
                format!("the tensor has no part `{role}`"),
            )
        })
    }

    /// Checks the shape as all versions require: the size fits in 64 bits, and
    /// the number of dimensions is within the cap.
    pub(super) fn check_size(&self) -> Result<()> {
        if self.shape.len() > DIMENSIONS {
            return Err(Error::dimensions());
        }
        let mut count = Some(1u64);
        for dimension in &self.shape {
            count = count.and_then(|count| count.checked_mul(*dimension));
        }
        match count.and_then(|count| self.element().len_bytes(count)) {
            Some(_) => Ok(()),
            None => Err(Error::malformed(
                Rule::ZTensorOverflow,
                format!("the shape {:?} exceeds 64 bits", self.shape),
            )),
        }
    }
}

/// The element type of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ElementType {
    /// An element type that has a [`Dtype`].
    Dtype(Dtype),
    /// A complex number of two double-precision floats, which has no [`Dtype`].
    Complex128,
}

impl ElementType {
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
        let known = LOGICAL.iter().find(|(name, ..)| *name == logical);
        let &(_, over, element) = known.ok_or_else(|| unknown("type", logical))?;
        if over != stored {
            return Err(Error::malformed(
                Rule::ZTensorDtype,
                format!("the type {logical} is not stored as {name}"),
            ));
        }
        Ok(element)
    }

    /// Returns whether `name` is a logical type that this library knows.
    pub(super) fn is_logical(name: &str) -> bool {
        LOGICAL.iter().any(|(known, ..)| *known == name)
    }
}

fn unknown(what: &str, name: &str) -> Error {
    Error::malformed(
        Rule::ZTensorDtype,
        format!("the {what} `{}` does not exist", name.escape_default()),
    )
}

/// The logical types of versions 1.1, 1.2 and 2, with the dtypes that store
/// them.
const LOGICAL: [(&str, Dtype, ElementType); 9] = [
    ("bool", Dtype::U8, ElementType::Dtype(Dtype::Bool)),
    ("f8_e4m3fn", Dtype::U8, ElementType::Dtype(Dtype::F8E4M3)),
    ("f8_e5m2", Dtype::U8, ElementType::Dtype(Dtype::F8E5M2)),
    (
        "f8_e4m3fnuz",
        Dtype::U8,
        ElementType::Dtype(Dtype::F8E4M3Fnuz),
    ),
    (
        "f8_e5m2fnuz",
        Dtype::U8,
        ElementType::Dtype(Dtype::F8E5M2Fnuz),
    ),
    ("f8_e8m0", Dtype::U8, ElementType::Dtype(Dtype::F8E8M0)),
    ("f4_e2m1", Dtype::U8, ElementType::Dtype(Dtype::F4)),
    ("complex64", Dtype::F32, ElementType::Dtype(Dtype::C64)),
    ("complex128", Dtype::F64, ElementType::Complex128),
];

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
