//! An entry of `config_groups` (docs/formats/compressed-tensors.md 5.2).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::Deserialize;
use serde_json::Value;

use super::config::refuse;
use super::scheme::Scheme;
use super::target::Targets;
use crate::{Error, Result};

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
pub fn read_group(name: &str, group: &Value) -> Result<Group> {
    let texts = |list: &Value| -> Result<Vec<String>> {
        Vec::deserialize(list).map_err(|error| {
            refuse(format!(
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
                    return Err(refuse(format!(
                        "the format of group `{name}` is not a string"
                    )));
                }
            },
            weights: match fields.get("weights") {
                None | Some(Value::Null) => Ok(None),
                Some(arguments) => Scheme::read(arguments).map(Some),
            },
        }),
        _ => Err(refuse(format!(
            "group `{name}` is neither an object nor a list"
        ))),
    }
}
