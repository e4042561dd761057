//! A weight: its parts, and the decoding of its dense bytes from them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::WeightFormat;
use super::bit_packing::CodeLayout;
use super::checkpoint::{Role, View, Views, WeightPart};
use super::dequantise::{
    Codes, SmallFloat, byte_values, dequantise, offset_integers, packed_zero_points,
    plain_zero_points, power_of_two,
};
use super::geometry::{ScaleGrid, WeightShape};
use super::scheme::{Scheme, Strategy};
use super::{bit_packing, bitmask, marlin};
use crate::bytes::index;
use crate::dtype::Dtype;
use crate::tensor::element_count;
use crate::{Error, Result, Rule};

/// A decoded tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DenseTensor {
    /// The element type.
    pub dtype: Dtype,
    /// The shape, outermost dimension first.
    pub shape: Vec<u64>,
    /// The elements, little-endian and row-major.
    pub bytes: Vec<u8>,
}

/// A tensor of the dense model that is decoded from several stored tensors.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Weight {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) format: WeightFormat,
    pub(super) scheme: Option<Scheme>,
    /// The format of the mask, if the codes are stored under one (section 4).
    pub(super) mask: Option<WeightFormat>,
    /// True if the packing of releases before 0.18 is tried first, because such
    /// a release wrote the model or the model does not state its release.
    pub(super) older_packing: bool,
    pub(super) shape: Option<Vec<u64>>,
    pub(super) parts: Vec<WeightPart>,
}

impl Weight {
    /// Returns the name of the dense tensor.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the dtype of the dense tensor, in which the arithmetic is done.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the format of the weight. For quantised weights under a mask,
    /// this is the format of the codes.
    #[must_use]
    pub fn format(&self) -> WeightFormat {
        self.format
    }

    /// Returns the quantisation scheme, if the weight is quantised.
    #[must_use]
    pub fn scheme(&self) -> Option<&Scheme> {
        self.scheme.as_ref()
    }

    /// Returns the stored tensors that the weight is decoded from.
    #[must_use]
    pub fn parts(&self) -> &[WeightPart] {
        &self.parts
    }

    /// Returns the dense shape, if it follows from the shapes of the parts.
    /// Otherwise the part with [`Role::Shape`] contains it; see
    /// [`Weight::shape_from`].
    #[must_use]
    pub fn shape(&self) -> Option<&[u64]> {
        self.shape.as_deref()
    }

    /// Returns the dense shape, given the bytes of the part with
    /// [`Role::Shape`].
    ///
    /// # Errors
    /// A shape that does not fit the shapes of the other parts.
    pub fn shape_from(&self, bytes: &[u8]) -> Result<Vec<u64>> {
        let part = |role| self.parts.iter().find(|part| part.role == role);
        let Some(shape) = part(Role::Shape) else {
            return self.shape.clone().ok_or_else(|| self.missing(Role::Shape));
        };
        View::new(&shape.stored, bytes)
            .and_then(|view| match (self.sparse(), self.scheme) {
                (Some(format), _) => {
                    let bitmask = part(Role::Bitmask).ok_or_else(|| self.missing(Role::Bitmask))?;
                    bitmask::dense_shape(format, view, &bitmask.stored.shape)
                }
                (None, Some(scheme)) => {
                    let codes = part(Role::Packed).ok_or_else(|| self.missing(Role::Packed))?;
                    bit_packing::dense_shape(scheme.num_bits, view, &codes.stored)
                }
                (None, None) => Err(self.missing(Role::Bitmask)),
            })
            .map_err(|error| error.tensor(&self.name))
    }

    /// Decodes the dense tensor from the bytes of all parts, in the order of
    /// [`Weight::parts`]. The result equals the package's bit for bit, except
    /// that every NaN is the positive quiet NaN without a payload.
    pub fn decode(&self, parts: &[&[u8]]) -> Result<DenseTensor> {
        self.decode_parts(parts)
            .map_err(|error| error.tensor(&self.name))
    }

    fn decode_parts(&self, parts: &[&[u8]]) -> Result<DenseTensor> {
        let views = Views::new(&self.parts, parts)?;
        let shape = match views.get(Role::Shape) {
            Some(shape) => self.shape_from(shape.bytes)?,
            None => self.shape_from(&[])?,
        };
        let bytes = match self.scheme {
            None => bitmask::expand(self.format, &shape, views)?,
            Some(scheme) => {
                let geometry = WeightShape::new(shape.clone())?;
                match self.format {
                    WeightFormat::PackQuantized => self.packed(&scheme, &geometry, views)?,
                    WeightFormat::Marlin24 => marlin::decode(&scheme, &geometry, views)?,
                    WeightFormat::Nvfp4PackQuantized
                    | WeightFormat::Mxfp4PackQuantized
                    | WeightFormat::Mxfp6PackQuantized
                    | WeightFormat::Mxfp8Quantized => self.small(&geometry, views)?,
                    _ => self.one_per_byte(&scheme, &geometry, views)?,
                }
            }
        };
        Ok(DenseTensor {
            dtype: self.dtype,
            shape,
            bytes,
        })
    }

    /// Returns the format of the mask over values or codes, if there is one.
    fn sparse(&self) -> Option<WeightFormat> {
        self.mask
            .or_else(|| Some(self.format).filter(|f| f.is_sparse()))
    }

    fn missing(&self, role: Role) -> Error {
        Error::malformed(
            Rule::CompressedTensorsParts,
            format!("the part {role:?} of the weight is missing"),
        )
        .tensor(&self.name)
    }

    /// Decodes codes of one byte each (section 6).
    fn one_per_byte(
        &self,
        scheme: &Scheme,
        geometry: &WeightShape,
        views: Views<'_>,
    ) -> Result<Vec<u8>> {
        let scale = views.need(Role::Scale)?;
        let grid = grid(scheme, geometry, views)?;
        let zeros = views
            .get(Role::ZeroPoint)
            .map(|zeros| plain_zero_points(zeros, scale.stored))
            .transpose()?;
        let unmasked;
        let (bytes, dtype) = match self.mask {
            Some(format) => {
                let shape = self.shape_from(views.need(Role::Shape)?.bytes)?;
                unmasked = bitmask::expand(format, &shape, views)?;
                (unmasked.as_slice(), views.need(Role::Values)?.stored.dtype)
            }
            None => {
                let codes = views.need(Role::Codes)?;
                (codes.bytes, codes.stored.dtype)
            }
        };
        let values = byte_values(dtype == Dtype::F8E4M3);
        let codes = Codes::new(bytes, rows(geometry), CodeLayout::dense(8), values);
        let (scales, zeros) = (scale.floats(), zeros.as_deref());
        dequantise(self.dtype, geometry, &codes, &grid, &scales, zeros)
    }

    /// Decodes packed codes (section 7).
    fn packed(&self, scheme: &Scheme, geometry: &WeightShape, views: Views<'_>) -> Result<Vec<u8>> {
        let (codes, scale) = (views.need(Role::Packed)?, views.need(Role::Scale)?);
        let bits = scheme.num_bits;
        let grid = grid(scheme, geometry, views)?;
        let zeros = views.get(Role::ZeroPoint);
        let packed_zeros = zeros.filter(|zeros| zeros.stored.dtype == Dtype::I32);
        let layout = bit_packing::layout(
            bits,
            self.older_packing,
            geometry,
            codes.stored,
            packed_zeros.map(|zeros| zeros.stored),
        )?;
        let zeros = match (packed_zeros, zeros) {
            (Some(zeros), _) => Some(packed_zero_points(zeros, geometry, &grid, layout, bits)?),
            (None, Some(zeros)) => Some(plain_zero_points(zeros, scale.stored)?),
            (None, None) => None,
        };
        let codes = Codes::new(codes.bytes, rows(geometry), layout, offset_integers(bits));
        let (scales, zeros) = (scale.floats(), zeros.as_deref());
        dequantise(self.dtype, geometry, &codes, &grid, &scales, zeros)
    }

    /// Decodes small floats with a scale per group (section 8).
    fn small(&self, geometry: &WeightShape, views: Views<'_>) -> Result<Vec<u8>> {
        let scale = views.need(Role::Scale)?;
        let (small, role, size) = match self.format {
            WeightFormat::Nvfp4PackQuantized => (SmallFloat::E2M1, Role::Packed, 16),
            WeightFormat::Mxfp4PackQuantized => (SmallFloat::E2M1, Role::Packed, 32),
            WeightFormat::Mxfp6PackQuantized => (SmallFloat::E2M3, Role::Packed, 32),
            _ => (SmallFloat::E4M3, Role::Codes, 32),
        };
        let grid = ScaleGrid::new(Strategy::Group { size }, geometry, scale.stored)?;
        let scales: Vec<f32> = if self.format == WeightFormat::Nvfp4PackQuantized {
            let global = views.need(Role::GlobalScale)?;
            if !matches!(global.stored.shape.as_slice(), [] | [1]) {
                return Err(Error::malformed(
                    Rule::CompressedTensorsShape,
                    format!(
                        "`{}` has shape {:?} where one number is expected",
                        global.stored.name, global.stored.shape
                    ),
                ));
            }
            let global = global.floats()[0];
            let values = SmallFloat::E4M3.values();
            let scale = scale.bytes.iter();
            scale
                .map(|&code| values[usize::from(code)] / global)
                .collect()
        } else {
            let scale = scale.bytes.iter();
            scale.map(|&e| power_of_two(u32::from(e))).collect()
        };
        let layout = CodeLayout::dense(small.bits());
        let codes = views.need(role)?.bytes;
        let codes = Codes::new(codes, rows(geometry), layout, small.values());
        dequantise(self.dtype, geometry, &codes, &grid, &scales, None)
    }
}

/// Returns the assignment of scales to elements, and checks the shape of the
/// scales.
fn grid(scheme: &Scheme, geometry: &WeightShape, views: Views<'_>) -> Result<ScaleGrid> {
    let grid = ScaleGrid::new(scheme.strategy, geometry, views.need(Role::Scale)?.stored)?;
    match views.get(Role::GroupIndex) {
        None => Ok(grid),
        Some(groups) if groups.stored.shape == [geometry.columns] => grid.with_columns(groups),
        Some(groups) => Err(Error::malformed(
            Rule::CompressedTensorsShape,
            format!(
                "`{}` has shape {:?}, the weight {} columns",
                groups.stored.name, groups.stored.shape, geometry.columns
            ),
        )),
    }
}

/// Returns the number of rows over all matrices; 1 for weights without
/// elements.
fn rows(geometry: &WeightShape) -> usize {
    match geometry.elements {
        0 => 1,
        _ => index(element_count(geometry.leading()).unwrap_or_default() * geometry.rows),
    }
}
