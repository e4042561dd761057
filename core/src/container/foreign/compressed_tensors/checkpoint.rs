//! The stored tensors, and the tensors of the dense model that are derived from
//! them (docs/formats/compressed-tensors.md 2 and 5.3).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::WeightFormat;
use super::config::Config;
use super::module_parts::{Table, masked, quantised, sparse};
use super::weight::Weight;
use crate::bytes::Cursor;
use crate::container::foreign::{QUANTISED, SPARSE};
use crate::container::safetensors::HeaderTensor;
use crate::dtype::Dtype;
use crate::tensor::element_count;
use crate::{Error, Result, Rule};

/// A tensor of the dense model.
#[derive(Debug, Clone)]
pub enum CheckpointEntry {
    /// The tensor is stored uncompressed.
    Stored(TensorSpec),
    /// The tensor is a weight to decode from its parts.
    Weight(Weight),
    /// The weight cannot be read. Its existing parts are listed as stored
    /// tensors.
    Refused(Error),
}

/// All tensors of a model, by name. A damaged weight does not affect the
/// others.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    entries: BTreeMap<String, CheckpointEntry>,
}

/// The parts of sparse tensors, by the name of the dense tensor.
type Masks = BTreeMap<String, Result<(WeightFormat, Vec<WeightPart>)>>;

impl Checkpoint {
    /// Groups the stored tensors, over all files of a model.
    ///
    /// # Errors
    /// A name that occurs twice, or an unknown sparse format.
    pub fn new(config: &Config, stored: impl IntoIterator<Item = TensorSpec>) -> Result<Self> {
        let mut table = Table::new();
        for tensor in stored {
            if let Some(twice) = table.insert(tensor.name.clone(), tensor) {
                return Err(Error::malformed(
                    Rule::CompressedTensorsName,
                    "two stored tensors have this name",
                )
                .tensor(&twice.name));
            }
        }
        let mut masks = masks(config, &table)?;
        let mut entries = BTreeMap::new();
        let mut used = BTreeSet::new();
        let mut take = |entries: &mut BTreeMap<String, CheckpointEntry>,
                        name: String,
                        weight: Result<Weight>| {
            let entry = match weight {
                Ok(weight) => {
                    used.extend(weight.parts.iter().map(|part| part.stored.name.clone()));
                    CheckpointEntry::Weight(weight)
                }
                Err(error) => CheckpointEntry::Refused(error.tensor(&name)),
            };
            entries.insert(name, entry);
        };
        for module in modules(config, &table) {
            let name = format!("{module}.weight");
            match config.scheme(&module) {
                Ok(None) => {}
                Ok(Some((scheme, format))) => {
                    let own = table.get(&name);
                    if !config.is_compressed() && own.is_some_and(is_wide_float) {
                        continue;
                    }
                    let weight = match masks.remove(&name) {
                        Some(Err(error)) => Err(error),
                        Some(Ok(_)) if own.is_some() => Err(occupied()),
                        mask => quantised(
                            config,
                            &table,
                            &module,
                            scheme,
                            format,
                            mask.and_then(Result::ok),
                        ),
                    };
                    let weight = weight.and_then(|weight| match own {
                        Some(own) if weight.parts.iter().all(|p| p.stored.name != own.name) => {
                            Err(occupied())
                        }
                        _ => Ok(weight),
                    });
                    take(&mut entries, name, weight);
                }
                Err(error) => take(&mut entries, name, Err(error)),
            }
        }
        for (name, parts) in masks {
            let weight = match parts {
                Ok(_) if table.contains_key(&name) => Err(occupied()),
                Ok((format, parts)) => sparse(name.clone(), format, parts),
                Err(error) => Err(error),
            };
            take(&mut entries, name, weight);
        }
        for (name, tensor) in table {
            if !used.contains(&name) {
                entries
                    .entry(name)
                    .or_insert(CheckpointEntry::Stored(tensor));
            }
        }
        Ok(Self { entries })
    }

    /// Returns all tensors of the dense model, by name. They include tensors
    /// that belong to a module without being a part of its weight, such as
    /// `input_scale`.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &CheckpointEntry)> {
        self.entries
            .iter()
            .map(|(name, entry)| (name.as_str(), entry))
    }

    /// Returns the tensor called `name`; an error if there is none or it cannot
    /// be read.
    pub fn find(&self, name: &str) -> Result<&CheckpointEntry> {
        match self.entries.get(name) {
            None => Err(Error::not_found(name)),
            Some(CheckpointEntry::Refused(error)) => Err(error.clone()),
            Some(entry) => Ok(entry),
        }
    }
}

fn occupied() -> Error {
    Error::malformed(
        Rule::CompressedTensorsName,
        "it is stored both whole and in parts",
    )
}

fn is_wide_float(stored: &TensorSpec) -> bool {
    matches!(
        stored.dtype,
        Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64
    )
}

/// Returns the modules with a quantised weight. If the configuration does not
/// mention quantisation, there are none.
fn modules(config: &Config, table: &Table) -> BTreeSet<String> {
    if !config.is_quantised() {
        return BTreeSet::new();
    }
    let module = |name: &String| {
        QUANTISED
            .iter()
            .find_map(|mark| name.strip_suffix(mark))
            .map(ToString::to_string)
    };
    table.keys().filter_map(module).collect()
}

/// Finds the sparse tensors. If the configuration names a sparse format, a
/// prefix with values or a mask must have all parts; otherwise only a complete
/// set of parts is taken for a sparse tensor.
fn masks(config: &Config, table: &Table) -> Result<Masks> {
    let format = config.sparse_format()?;
    let mut masks = Masks::new();
    for name in table.keys() {
        let Some(prefix) = SPARSE.iter().find_map(|mark| name.strip_suffix(mark)) else {
            continue;
        };
        let parts = masked(table, prefix, format);
        if parts.is_err() && format.is_none() {
            continue;
        }
        masks.insert(dense_name(config, prefix), parts);
    }
    Ok(masks)
}

/// Returns the name of the dense tensor (section 2), which the configuration
/// determines or, failing that, the spelling of the prefix.
fn dense_name(config: &Config, prefix: &str) -> String {
    let full =
        config.keeps_full_names() || prefix.ends_with(".weight") || prefix.ends_with(".bias");
    if full {
        prefix.to_string()
    } else {
        format!("{prefix}.weight")
    }
}

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
