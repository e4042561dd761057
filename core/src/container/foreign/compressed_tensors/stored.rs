//! The stored tensors from which a weight is decoded.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::bytes::Cursor;
use crate::container::safetensors::HeaderTensor;
use crate::dtype::Dtype;
use crate::tensor::element_count;
use crate::{Error, Result, Rule};

/// The name, dtype and shape of a tensor, without its location: the tensors of
/// a model may be spread over several files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorSpec {
    /// The name in the safetensors header.
    pub name: String,
    /// The element type.
    pub dtype: Dtype,
    /// The shape, outermost dimension first. Empty for a scalar.
    pub shape: Vec<u64>,
}

impl TensorSpec {
    /// Returns the length of the tensor in bytes; an error if it exceeds 64
    /// bits or the elements do not fill whole bytes.
    pub fn len_bytes(&self) -> Result<u64> {
        len_bits(self.dtype, &self.shape)
            .filter(|bits| bits % 8 == 0)
            .map(|bits| bits / 8)
            .ok_or_else(|| {
                Error::malformed(
                    Rule::CompressedTensorsShape,
                    format!(
                        "shape {:?} of {} is not a whole number of bytes, or exceeds 64 bits",
                        self.shape, self.dtype
                    ),
                )
                .tensor(&self.name)
            })
    }
}

fn len_bits(dtype: Dtype, shape: &[u64]) -> Option<u64> {
    element_count(shape)?.checked_mul(dtype.bits())
}

impl From<&HeaderTensor> for TensorSpec {
    fn from(tensor: &HeaderTensor) -> Self {
        Self {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
        }
    }
}

/// The role of a stored tensor in its weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Role {
    /// The dense shape: `shape`, `weight_shape`.
    Shape,
    /// The values that a mask assigns to positions: `compressed`.
    Values,
    /// One bit per dense element: `bitmask`.
    Bitmask,
    /// The number of values in the preceding rows, for each row: `row_offsets`.
    RowOffsets,
    /// One code per byte: `weight`.
    Codes,
    /// Codes packed into fewer bits: `weight_packed`.
    Packed,
    /// The scales: `weight_scale` or `scale_packed`.
    Scale,
    /// The zero points: `weight_zero_point`.
    ZeroPoint,
    /// The group of each column: `weight_g_idx`.
    GroupIndex,
    /// The scale of the scales: `weight_global_scale`.
    GlobalScale,
    /// The positions of the values of a 2:4 sparse weight: `meta`.
    Meta,
}

/// A stored tensor and its role in a weight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightPart {
    /// The role of the tensor.
    pub role: Role,
    /// The name, dtype and shape of the tensor.
    pub stored: TensorSpec,
}

/// The parts of a weight with their bytes.
#[derive(Clone, Copy)]
pub struct Views<'a> {
    parts: &'a [WeightPart],
    bytes: &'a [&'a [u8]],
}

/// A part of a weight with its bytes.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub stored: &'a TensorSpec,
    pub bytes: &'a [u8],
}

impl<'a> Views<'a> {
    /// Pairs parts with their bytes. Every part must have the length that its
    /// shape and dtype imply.
    pub fn new(parts: &'a [WeightPart], bytes: &'a [&'a [u8]]) -> Result<Self> {
        if parts.len() != bytes.len() {
            return Err(Error::invalid_input(format!(
                "{} parts were given where {} are expected",
                bytes.len(),
                parts.len()
            )));
        }
        for (part, bytes) in parts.iter().zip(bytes) {
            View::new(&part.stored, bytes)?;
        }
        Ok(Self { parts, bytes })
    }

    pub fn get(&self, role: Role) -> Option<View<'a>> {
        let place = self.parts.iter().position(|part| part.role == role)?;
        Some(View {
            stored: &self.parts[place].stored,
            bytes: self.bytes[place],
        })
    }

    pub fn need(&self, role: Role) -> Result<View<'a>> {
        self.get(role).ok_or_else(|| {
            Error::malformed(
                Rule::CompressedTensorsParts,
                format!("the part {role:?} of the weight is missing"),
            )
        })
    }
}

impl<'a> View<'a> {
    pub fn new(stored: &'a TensorSpec, bytes: &'a [u8]) -> Result<Self> {
        let expected = stored.len_bytes()?;
        if bytes.len() as u64 != expected {
            return Err(Error::invalid_input(format!(
                "{} bytes were given for `{}`, which has {expected}",
                bytes.len(),
                stored.name
            )));
        }
        Ok(Self { stored, bytes })
    }

    /// Returns the elements of an I32 or I64 tensor.
    pub fn integers(self) -> impl Iterator<Item = Result<i64>> + 'a {
        let mut cursor = Cursor::new(self.bytes);
        let wide = self.stored.dtype == Dtype::I64;
        core::iter::from_fn(move || {
            (cursor.remaining() > 0).then(|| {
                if wide {
                    cursor.u64("integer").map(u64::cast_signed)
                } else {
                    cursor.u32("integer").map(|n| n.cast_signed().into())
                }
            })
        })
    }

    /// Returns the elements of a float tensor as F32.
    pub fn floats(self) -> Vec<f32> {
        let pairs = || self.bytes.chunks_exact(2).map(|b| [b[0], b[1]]);
        match self.stored.dtype {
            Dtype::F16 => pairs()
                .map(|b| half::f16::from_le_bytes(b).to_f32())
                .collect(),
            Dtype::Bf16 => pairs()
                .map(|b| half::bf16::from_le_bytes(b).to_f32())
                .collect(),
            _ => self
                .bytes
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                .collect(),
        }
    }
}
