//! The modules of a model: the stored tensors from which the weight of a module is
//! decoded (docs/formats/compressed-tensors.md).

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::checkpoint::{Role, TensorSpec, WeightPart};
use super::config::Config;
use super::scheme::{CodeType, Scheme, Strategy};
use super::weight::Weight;
use super::{WeightFormat, marlin};
use crate::dtype::Dtype;
use crate::{Error, Result, Rule};

const FLOATS: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::Bf16];
const INTEGERS: [Dtype; 2] = [Dtype::I64, Dtype::I32];

/// The stored tensors, by name.
pub type Table = BTreeMap<String, TensorSpec>;

/// The parts of a weight found so far among the stored tensors.
struct Parts<'a> {
    table: &'a Table,
    module: &'a str,
    found: Vec<WeightPart>,
}

impl Parts<'_> {
    /// Adds the part with this suffix if it exists. Its dtype must be one of
    /// `dtypes`.
    fn find(&mut self, role: Role, suffix: &str, dtypes: &[Dtype]) -> Result<Option<TensorSpec>> {
        let name = format!("{}.{suffix}", self.module);
        let Some(stored) = self.table.get(&name) else {
            return Ok(None);
        };
        if !dtypes.contains(&stored.dtype) {
            return Err(Error::malformed(
                Rule::CompressedTensorsDtype,
                format!("`{name}` has dtype {}, not one of {dtypes:?}", stored.dtype),
            ));
        }
        stored.len_bytes()?;
        self.found.push(WeightPart {
            role,
            stored: stored.clone(),
        });
        Ok(Some(stored.clone()))
    }

    fn need(&mut self, role: Role, suffix: &str, dtypes: &[Dtype]) -> Result<TensorSpec> {
        self.find(role, suffix, dtypes)?.ok_or_else(|| {
            Error::malformed(
                Rule::CompressedTensorsParts,
                format!("`{}.{suffix}` is missing", self.module),
            )
        })
    }
}

/// Returns the parts of a sparse tensor, whose names begin with `prefix`. The
/// format determines which parts it has. If `format` is `None`, it is inferred
/// from the parts.
pub fn masked(
    table: &Table,
    prefix: &str,
    format: Option<WeightFormat>,
) -> Result<(WeightFormat, Vec<WeightPart>)> {
    let mut parts = Parts {
        table,
        module: prefix,
        found: Vec::new(),
    };
    parts.need(Role::Shape, "shape", &[Dtype::I64])?;
    let whole: Vec<Dtype> = Dtype::ALL
        .into_iter()
        .filter(|dtype| dtype.bits() % 8 == 0)
        .collect();
    parts.need(Role::Values, "compressed", &whole)?;
    let bitmask = parts.need(Role::Bitmask, "bitmask", &[Dtype::U8])?;
    if format != Some(WeightFormat::Sparse24Bitmask) {
        let offsets = parts.find(Role::RowOffsets, "row_offsets", &[Dtype::I64])?;
        match (offsets, format) {
            (Some(offsets), _) => {
                if bitmask.shape.split_last().map(|(_, rows)| rows) != Some(&offsets.shape) {
                    return Err(Error::malformed(
                        Rule::CompressedTensorsShape,
                        format!(
                            "`{}` has shape {:?}, the mask has {:?}",
                            offsets.name, offsets.shape, bitmask.shape
                        ),
                    ));
                }
                return Ok((WeightFormat::SparseBitmask, parts.found));
            }
            (None, Some(_)) => {
                parts.need(Role::RowOffsets, "row_offsets", &[Dtype::I64])?;
            }
            (None, None) => {}
        }
    }
    Ok((WeightFormat::Sparse24Bitmask, parts.found))
}

/// Returns the weight of a sparse tensor that is not quantised.
pub fn sparse(name: String, format: WeightFormat, parts: Vec<WeightPart>) -> Result<Weight> {
    let values = parts.iter().find(|part| part.role == Role::Values);
    let dtype = values.map_or(Dtype::U8, |part| part.stored.dtype);
    Ok(Weight {
        name,
        dtype,
        format,
        scheme: None,
        mask: None,
        older_packing: false,
        shape: None,
        parts,
    })
}

/// Returns the weight of a quantised module. If its codes are stored under a
/// mask, `mask` contains their parts.
pub fn quantised(
    config: &Config,
    table: &Table,
    module: &str,
    scheme: Scheme,
    format: WeightFormat,
    mask: Option<(WeightFormat, Vec<WeightPart>)>,
) -> Result<Weight> {
    let mut parts = Parts {
        table,
        module,
        found: Vec::new(),
    };
    let mut weight = Weight {
        name: format!("{module}.weight"),
        dtype: Dtype::Bf16,
        format,
        scheme: Some(scheme),
        mask: None,
        older_packing: config.is_older_than((0, 18)).unwrap_or(true),
        shape: None,
        parts: Vec::new(),
    };
    let one_per_byte = matches!(
        format,
        WeightFormat::NaiveQuantized | WeightFormat::IntQuantized | WeightFormat::FloatQuantized
    );
    match (format, mask) {
        (_, Some((mask, codes))) if one_per_byte => {
            let dtype = code_dtype(&scheme)?;
            for part in &codes {
                if part.role == Role::Values && part.stored.dtype != dtype {
                    return Err(Error::malformed(
                        Rule::CompressedTensorsDtype,
                        format!(
                            "`{}` has dtype {}, not {dtype}",
                            part.stored.name, part.stored.dtype
                        ),
                    ));
                }
            }
            parts.found = codes;
            weight.mask = Some(mask);
            weight.dtype = scales(&mut parts, &scheme, config)?;
        }
        (_, Some(_)) => {
            return Err(Error::malformed(
                Rule::CompressedTensorsParts,
                format!("a weight in the format {} has no mask", format.name()),
            ));
        }
        (WeightFormat::PackQuantized, None) => {
            if scheme.number != CodeType::Int {
                return Err(Error::unsupported("packed floats are not supported"));
            }
            parts.need(Role::Shape, "weight_shape", &INTEGERS)?;
            parts.need(Role::Packed, "weight_packed", &[Dtype::I32])?;
            weight.dtype = scales(&mut parts, &scheme, config)?;
        }
        (WeightFormat::Marlin24, None) => {
            let packed = parts.need(Role::Packed, "weight_packed", &[Dtype::I32])?;
            let scale = parts.need(Role::Scale, "scale_packed", &[Dtype::F16])?;
            let meta = parts.need(Role::Meta, "meta", &[Dtype::I16])?;
            weight.shape = Some(marlin::dense_shape(&scheme, &packed, &scale, &meta)?);
            weight.dtype = Dtype::F16;
        }
        (WeightFormat::Mxfp8Quantized, None) => {
            let codes = parts.need(Role::Codes, "weight", &[Dtype::F8E4M3])?;
            parts.need(Role::Scale, "weight_scale", &[Dtype::U8])?;
            weight.shape = Some(codes.shape);
        }
        (WeightFormat::Nvfp4PackQuantized, None) => {
            let codes = parts.need(Role::Packed, "weight_packed", &[Dtype::U8])?;
            parts.need(Role::Scale, "weight_scale", &[Dtype::F8E4M3])?;
            parts.need(Role::GlobalScale, "weight_global_scale", &[Dtype::F32])?;
            weight.shape = Some(unpacked(&codes, 1, 2)?);
        }
        (WeightFormat::Mxfp4PackQuantized | WeightFormat::Mxfp6PackQuantized, None) => {
            let codes = parts.need(Role::Packed, "weight_packed", &[Dtype::U8])?;
            parts.need(Role::Scale, "weight_scale", &[Dtype::U8])?;
            weight.shape = Some(match format {
                WeightFormat::Mxfp4PackQuantized => unpacked(&codes, 1, 2)?,
                _ => unpacked(&codes, 3, 4)?,
            });
        }
        _ => {
            let codes = parts.need(Role::Codes, "weight", &[code_dtype(&scheme)?])?;
            weight.dtype = scales(&mut parts, &scheme, config)?;
            weight.shape = Some(codes.shape);
        }
    }
    weight.parts = parts.found;
    Ok(weight)
}

/// Returns the dtype of codes that take one byte each.
fn code_dtype(scheme: &Scheme) -> Result<Dtype> {
    match (scheme.number, scheme.num_bits) {
        (CodeType::Int, _) => Ok(Dtype::I8),
        (CodeType::Float, 8) => Ok(Dtype::F8E4M3),
        (CodeType::Float, bits) => Err(Error::unsupported(format!(
            "floats of {bits} bits, one per byte, are not supported"
        ))),
    }
}

/// Adds the scale, the zero point and the group index, and returns the dtype of
/// the scale.
fn scales(parts: &mut Parts<'_>, scheme: &Scheme, config: &Config) -> Result<Dtype> {
    let scale = parts.need(Role::Scale, "weight_scale", &FLOATS)?;
    let packs = parts.found.iter().any(|part| part.role == Role::Packed)
        && matches!(scheme.strategy, Strategy::Group { .. } | Strategy::Channel);
    let plain = match scheme.number {
        CodeType::Int => Dtype::I8,
        CodeType::Float => Dtype::F8E4M3,
    };
    let dtypes: &[Dtype] = if packs {
        &[Dtype::I32, plain]
    } else {
        &[plain]
    };
    let zeros = parts.find(Role::ZeroPoint, "weight_zero_point", dtypes)?;
    // Releases before 0.9 omitted zero points that were all zero.
    if zeros.is_none() && !scheme.symmetric && config.is_older_than((0, 9)) != Some(true) {
        return Err(Error::malformed(
            Rule::CompressedTensorsParts,
            format!("`{}.weight_zero_point` is missing", parts.module),
        ));
    }
    let grouped = matches!(scheme.strategy, Strategy::Group { .. });
    if grouped {
        let index = parts.find(Role::GroupIndex, "weight_g_idx", &[Dtype::I32])?;
        if scheme.indexed && index.is_none() {
            return Err(Error::malformed(
                Rule::CompressedTensorsParts,
                format!("`{}.weight_g_idx` is missing", parts.module),
            ));
        }
    }
    Ok(scale.dtype)
}

/// Returns the shape of the codes in `packed`, where every `bytes` bytes hold
/// `codes` codes.
fn unpacked(packed: &TensorSpec, bytes: u64, codes: u64) -> Result<Vec<u64>> {
    let mut shape = packed.shape.clone();
    let columns = shape.last().copied().unwrap_or_default();
    match (
        columns.is_multiple_of(bytes),
        (columns / bytes).checked_mul(codes),
        shape.last_mut(),
    ) {
        (true, Some(columns), Some(last)) => *last = columns,
        _ => {
            return Err(Error::malformed(
                Rule::CompressedTensorsShape,
                format!(
                    "`{}` has shape {:?}, whose rows are not a whole number of codes",
                    packed.name, packed.shape
                ),
            ));
        }
    }
    Ok(shape)
}
