//! Writes the `config.json` of an output folder (docs/formats/compressed-tensors.md 5).

use std::path::PathBuf;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use zstn_core::Rule;
use zstn_core::limits::HEADER_LEN_BYTES;

use crate::source::{CONFIG, Input, Location, regular};
use crate::{Error, Result};

/// The key for the settings of the writer.
const OURS: &str = "quantization_config";

/// The keys that releases of compressed-tensors have used. Their values state how the
/// input was stored.
const THEIRS: [&str; 3] = [OURS, "compression_config", "sparsity_config"];

/// Returns the entries of the input's `config.json`, if it is a folder with one.
/// `settings` replace the entries that state how the input's weights were stored. All
/// other entries keep their order and their text.
pub fn text(input: &Input, settings: &str) -> Result<Vec<u8>> {
    let folder = match input.location() {
        Some(Location::Path(folder)) => Some(folder),
        _ => None,
    };
    let path = folder.map_or(PathBuf::from(CONFIG), |folder| folder.join(CONFIG));
    let metadata = folder.and_then(|_| std::fs::metadata(&path).ok());
    let found = match metadata {
        Some(file) if file.len() > HEADER_LEN_BYTES => {
            return Err(Error::place(path.display())(zstn_core::Error::limit(
                format!("a configuration of {} bytes is over the cap", file.len()),
            )));
        }
        Some(_) => regular::read(&path).map_err(Error::file("read", &path))?,
        None => b"{}".to_vec(),
    };
    merge(&found, settings).map_err(|error| {
        Error::place(path.display())(zstn_core::Error::malformed(
            Rule::CompressedTensorsConfig,
            format!("the configuration cannot be read: {error}"),
        ))
    })
}

fn merge(found: &[u8], settings: &str) -> serde_json::Result<Vec<u8>> {
    let Members(found) = serde_json::from_slice(found)?;
    let settings: Value = serde_json::from_str(settings)?;
    let settings = serde_json::to_string_pretty(&settings)?.replace('\n', "\n  ");
    let place = found.iter().position(|(key, _)| key == OURS);
    let place = place.unwrap_or(found.len());
    let mut lines = Vec::new();
    for (number, (key, value)) in found.iter().enumerate() {
        if number == place {
            lines.push((OURS, settings.as_str()));
        }
        if !THEIRS.contains(&key.as_str()) {
            lines.push((key, value.get()));
        }
    }
    if place == found.len() {
        lines.push((OURS, &settings));
    }
    let lines: Vec<String> = lines
        .into_iter()
        .map(|(key, value)| format!("  {}: {value}", Value::from(key)))
        .collect();
    Ok(format!("{{\n{}\n}}\n", lines.join(",\n")).into_bytes())
}

/// The members of a JSON object in order, with the original text of their values.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Members;

            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(All)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(found: &str) -> String {
        let text = merge(found.as_bytes(), r#"{"b": [1], "a": 2}"#).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn other_entries_keep_order_and_text() {
        let ours = "  \"quantization_config\": {\n    \"a\": 2,\n    \"b\": [\n      1\n    ]\n  }";
        assert_eq!(merged("{}"), format!("{{\n{ours}\n}}\n"));
        assert_eq!(
            merged(r#"{"z": 1e-05, "sparsity_config": {}, "a\"b": [1,  2]}"#),
            format!("{{\n  \"z\": 1e-05,\n  \"a\\\"b\": [1,  2],\n{ours}\n}}\n")
        );
        assert_eq!(
            merged(r#"{"quantization_config": 7, "z": null, "quantization_config": 8}"#),
            format!("{{\n{ours},\n  \"z\": null\n}}\n")
        );
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in ["", "[]", "{", "{\"a\": }"] {
            assert!(merge(text.as_bytes(), "{}").is_err(), "{text}");
        }
    }
}
