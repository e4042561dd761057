//! Derives the tensors of the dense model from the stored ones
//! (docs/formats/compressed-tensors.md 2 and 5.3).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::config::Config;
use super::format::Format;
use super::module::{Table, masked, quantised, sparse};
use super::stored::{TensorSpec, WeightPart};
use super::weight::Weight;
use crate::container::foreign::{QUANTISED, SPARSE};
use crate::dtype::Dtype;
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
type Masks = BTreeMap<String, Result<(Format, Vec<WeightPart>)>>;

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
