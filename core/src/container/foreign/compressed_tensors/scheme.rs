//! The groups of modules in `config.json`, and the quantisation arguments of
//! the weights in each (docs/formats/compressed-tensors.md 5.2).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::config;
use super::targets::Targets;
use crate::{Error, Result, Rule};

/// The meaning of a stored code before it is scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CodeType {
    /// A signed integer.
    Int,
    /// A float of the scheme's number of bits.
    Float,
}

/// The elements that share a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Strategy {
    /// All elements share a scale.
    Tensor,
    /// The elements of a row share a scale.
    Channel,
    /// Runs of adjacent elements in a row share a scale.
    Group {
        /// The number of elements in a run.
        size: u64,
    },
    /// Rectangles of elements share a scale; they are smaller at the edges.
    Block {
        /// The number of rows of a rectangle.
        rows: u64,
        /// The number of columns of a rectangle.
        columns: u64,
    },
    /// Runs of elements share a scale, and one more scale applies to all of
    /// them.
    TensorGroup,
}

/// The quantisation scheme of the weights of a group of modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scheme {
    /// The number of bits of a code.
    pub num_bits: u8,
    /// The type of the codes.
    pub number: CodeType,
    /// True if the scheme has no zero points.
    pub symmetric: bool,
    /// The elements that share a scale.
    pub strategy: Strategy,
    /// True if an index assigns columns to groups individually (section 7.4).
    pub indexed: bool,
}

/// The fields of the object `weights` of a group. Fields whose type differs
/// between releases are parsed afterwards.
#[derive(Deserialize)]
struct Fields {
    num_bits: Option<u8>,
    #[serde(rename = "type")]
    number: Option<String>,
    symmetric: Option<bool>,
    strategy: Option<String>,
    group_size: Option<i64>,
    #[serde(default)]
    block_structure: Value,
    #[serde(default)]
    actorder: Value,
}

fn refuse(detail: String) -> Error {
    Error::malformed(Rule::CompressedTensorsScheme, detail)
}

impl Scheme {
    /// Parses the object `weights` of a group.
    pub(super) fn read(arguments: &Value) -> Result<Self> {
        let fields = Fields::deserialize(arguments)
            .map_err(|error| refuse(format!("the arguments for weights are invalid: {error}")))?;
        let number = match fields.number.as_deref() {
            None | Some("int") => CodeType::Int,
            Some("float") => CodeType::Float,
            Some(other) => return Err(refuse(format!("`{other}` is not a number type"))),
        };
        let num_bits = fields.num_bits.unwrap_or(8);
        if !(1..=8).contains(&num_bits) {
            return Err(Error::unsupported(format!(
                "codes of {num_bits} bits are not supported, only of 1 to 8"
            )));
        }
        let indexed = match &fields.actorder {
            Value::Null | Value::Bool(false) => false,
            Value::Bool(true) => true,
            Value::String(order) => match order.to_ascii_lowercase().as_str() {
                "weight" | "static" => false,
                "group" | "dynamic" => true,
                _ => return Err(refuse(format!("`{order}` is not an activation order"))),
            },
            _ => {
                return Err(refuse("actorder is neither a string nor a boolean".into()));
            }
        };
        Ok(Self {
            num_bits,
            number,
            symmetric: fields.symmetric.unwrap_or(true),
            strategy: strategy(&fields)?,
            indexed,
        })
    }

    /// Returns the scheme of the preset called `name`, if there is one.
    pub(super) fn preset(name: &str) -> Option<Self> {
        let group = Strategy::Group { size: 128 };
        let (num_bits, number, symmetric, strategy) = match name.to_ascii_uppercase().as_str() {
            "W4A16" => (4, CodeType::Int, true, group),
            "W4A16_ASYM" => (4, CodeType::Int, false, group),
            "W8A16" => (8, CodeType::Int, true, group),
            "INT8" | "W8A8" => (8, CodeType::Int, true, Strategy::Channel),
            "FP8" => (8, CodeType::Float, true, Strategy::Tensor),
            "FP8_DYNAMIC" => (8, CodeType::Float, true, Strategy::Channel),
            "NVFP4" | "NVFP4A16" => (4, CodeType::Float, true, Strategy::TensorGroup),
            "MXFP4" | "MXFP4A16" => (4, CodeType::Float, true, Strategy::Group { size: 32 }),
            "MXFP6" | "MXFP6A16" => (6, CodeType::Float, true, Strategy::Group { size: 32 }),
            "MXFP8" | "MXFP8A16" => (8, CodeType::Float, true, Strategy::Group { size: 32 }),
            _ => return None,
        };
        Some(Self {
            num_bits,
            number,
            symmetric,
            strategy,
            indexed: false,
        })
    }
}

fn strategy(fields: &Fields) -> Result<Strategy> {
    let name = match (fields.strategy.as_deref(), fields.group_size) {
        (Some(name), _) => name,
        (None, None) => "tensor",
        (None, Some(-1)) => "channel",
        (None, Some(_)) => "group",
    };
    match name.to_ascii_lowercase().as_str() {
        "tensor" => Ok(Strategy::Tensor),
        "channel" => Ok(Strategy::Channel),
        "tensor_group" => Ok(Strategy::TensorGroup),
        "group" => match fields.group_size.map(u64::try_from) {
            Some(Ok(size)) if size > 0 => Ok(Strategy::Group { size }),
            _ => Err(refuse("strategy `group` needs a group_size above 0".into())),
        },
        "block" => {
            let (rows, columns) = block(&fields.block_structure).ok_or_else(|| {
                refuse("strategy `block` needs a block_structure of two numbers above 0".into())
            })?;
            Ok(Strategy::Block { rows, columns })
        }
        other => Err(refuse(format!("`{other}` is not a strategy for weights"))),
    }
}

/// Parses a block structure: `[128, 128]` or, in old files, `"128x128"`.
fn block(structure: &Value) -> Option<(u64, u64)> {
    let (rows, columns) = match structure {
        Value::Array(sides) => match sides.as_slice() {
            [rows, columns] => (rows.as_u64()?, columns.as_u64()?),
            _ => return None,
        },
        Value::String(text) => {
            let (rows, columns) = text.split_once(['x', 'X'])?;
            (rows.trim().parse().ok()?, columns.trim().parse().ok()?)
        }
        _ => return None,
    };
    (rows > 0 && columns > 0).then_some((rows, columns))
}

/// A group of modules that share a quantisation scheme.
#[derive(Debug, Clone)]
pub struct Group {
    pub targets: Targets,
    pub format: Option<String>,
    /// The scheme of the weights. An invalid scheme is an error only for the
    /// modules of this group.
    pub weights: Result<Option<Scheme>>,
}

/// Parses the group called `name`.
pub(crate) fn read_group(name: &str, group: &Value) -> Result<Group> {
    let texts = |list: &Value| -> Result<Vec<String>> {
        Vec::deserialize(list).map_err(|error| {
            config::refuse(format!(
                "the targets of group `{name}` are not a list of strings: {error}"
            ))
        })
    };
    match group {
        // A preset, which lists only its targets.
        Value::Array(_) => Ok(Group {
            targets: Targets::new(texts(group)?)?,
            format: None,
            weights: Scheme::preset(name)
                .map(Some)
                .ok_or_else(|| Error::unsupported(format!("the preset `{name}` is unknown"))),
        }),
        Value::Object(fields) => Ok(Group {
            targets: Targets::new(match fields.get("targets") {
                None | Some(Value::Null) => Vec::new(),
                Some(list) => texts(list)?,
            })?,
            format: match fields.get("format") {
                None | Some(Value::Null) => None,
                Some(Value::String(format)) => Some(format.clone()),
                Some(_) => {
                    return Err(config::refuse(format!(
                        "the format of group `{name}` is not a string"
                    )));
                }
            },
            weights: match fields.get("weights") {
                None | Some(Value::Null) => Ok(None),
                Some(arguments) => Scheme::read(arguments).map(Some),
            },
        }),
        _ => Err(config::refuse(format!(
            "group `{name}` is neither an object nor a list"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Scheme> {
        Scheme::read(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn the_strategy_follows_from_the_group_size() {
        let strategy = |text| read(text).unwrap().strategy;
        assert_eq!(strategy("{}"), Strategy::Tensor);
        assert_eq!(strategy(r#"{"group_size": -1}"#), Strategy::Channel);
        assert_eq!(
            strategy(r#"{"group_size": 64}"#),
            Strategy::Group { size: 64 }
        );
    }

    #[test]
    fn blocks_in_both_spellings() {
        let expected = Strategy::Block {
            rows: 64,
            columns: 128,
        };
        for text in [r#"[64, 128]"#, r#""64x128""#] {
            let text = format!(r#"{{"strategy": "block", "block_structure": {text}}}"#);
            assert_eq!(read(&text).unwrap().strategy, expected);
        }
    }

    #[test]
    fn numbers_that_would_divide_by_nothing_are_refused() {
        for text in [
            r#"{"strategy": "group", "group_size": 0}"#,
            r#"{"strategy": "group", "group_size": -1}"#,
            r#"{"strategy": "group"}"#,
            r#"{"strategy": "block", "block_structure": [0, 1]}"#,
            r#"{"strategy": "block", "block_structure": "4"}"#,
            r#"{"strategy": "token"}"#,
            r#"{"num_bits": 0}"#,
            r#"{"num_bits": 16}"#,
            r#"{"type": "complex"}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
