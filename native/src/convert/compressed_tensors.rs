//! Writes a folder of compressed-tensors with sparse weights, and its `config.json`
//! (docs/formats/compressed-tensors.md 5).

use std::ops::Range;
use std::path::PathBuf;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use zstn_core::Rule;
use zstn_core::container::foreign::compressed_tensors::{SparseWriter, TensorSpec, WeightFormat};
use zstn_core::container::safetensors::{self, HeaderTensor};
use zstn_core::limits::HEADER_LEN_BYTES;

use super::conversion::Conversion;
use super::safetensors::{Naming, cut, index};
use super::{Detail, Written};
use crate::output::{FolderPlace, OutputFolder};
use crate::source::{CONFIG, Input, Local, Location, Source, regular};
use crate::{Error, Progress as _, Result};

const SPOOL: &str = "spool";

pub fn write(conversion: &Conversion, format: WeightFormat) -> Result<Written> {
    let refuse = conversion.refuse();
    let mut writer = SparseWriter::new(format).map_err(&refuse)?;
    conversion.job.begin(conversion.tensor_bytes());
    let place = FolderPlace::Path(conversion.output.into());
    let folder = OutputFolder::create(&place, &conversion.job.http)?;
    // The header precedes the data and states how each tensor is stored, which is only
    // known once the tensor has been read.
    let mut spool = folder.file(SPOOL.as_ref())?;
    let mut stored: Vec<HeaderTensor> = Vec::new();
    let mut sparse = 0;
    let numbers: Vec<usize> = (0..conversion.tensors().len()).collect();
    conversion.each(
        &numbers,
        |_, tensor| Ok(tensor),
        |_, tensor| {
            let dense = TensorSpec {
                name: tensor.name,
                dtype: tensor.dtype,
                shape: tensor.shape,
            };
            let parts = writer.write(&dense, &tensor.bytes).map_err(&refuse)?;
            sparse += usize::from(parts.is_some());
            for (part, bytes) in parts.unwrap_or_else(|| vec![(dense, tensor.bytes)]) {
                let start = stored.last().map_or(0, |tensor| tensor.span.end);
                spool.write(&bytes)?;
                stored.push(HeaderTensor {
                    name: part.name,
                    dtype: part.dtype,
                    shape: part.shape,
                    span: start..start + bytes.len() as u64,
                });
            }
            Ok(())
        },
    )?;
    let files = Files {
        conversion,
        folder: &folder,
        data: spool.written()?,
        stored: &stored,
    };
    let mut len_bytes = files.write()?;
    drop(files);
    drop(spool);
    let config = config(conversion.input, &writer.quantization_config())?;
    folder.write(CONFIG, &config[..], &conversion.mode())?;
    len_bytes += config.len() as u64;
    conversion.check_unchanged()?;
    conversion.job.publishing()?;
    folder.finish()?;
    Ok(Written {
        detail: Detail::Sparse(sparse),
        ..Written::file(conversion, len_bytes)
    })
}

/// The stored tensors that will be written to one file or several.
struct Files<'a> {
    conversion: &'a Conversion<'a>,
    folder: &'a OutputFolder,
    data: Local,
    stored: &'a [HeaderTensor],
}

impl Files<'_> {
    fn write(&self) -> Result<u64> {
        let lens: Vec<u64> = self
            .stored
            .iter()
            .map(|tensor| tensor.span.end - tensor.span.start)
            .collect();
        let cuts = cut(&lens, self.conversion.options.shard_bytes);
        let naming = Naming::of_model();
        if cuts.len() < 2 {
            return self.file(&naming.single(), 0..self.stored.len());
        }
        let mut len_bytes = 0;
        let mut map = Vec::new();
        for (number, shard) in cuts.iter().enumerate() {
            let name = naming.shard(number, cuts.len());
            len_bytes += self.file(&name, shard.clone())?;
            map.push((shard.clone(), name));
        }
        let files = map.iter().flat_map(|(shard, file)| {
            let own = &self.stored[shard.clone()];
            own.iter()
                .map(|tensor| (tensor.name.as_str(), file.as_str()))
        });
        let text = index(lens.iter().sum(), files);
        let mode = self.conversion.mode();
        self.folder.write(naming.index(), &text[..], &mode)?;
        Ok(len_bytes + text.len() as u64)
    }

    fn file(&self, name: &str, tensors: Range<usize>) -> Result<u64> {
        let own = &self.stored[tensors];
        let start = own.first().map_or(0, |tensor| tensor.span.start);
        let end = own.last().map_or(0, |tensor| tensor.span.end);
        let moved: Vec<HeaderTensor> = own
            .iter()
            .map(|tensor| HeaderTensor {
                span: tensor.span.start - start..tensor.span.end - start,
                ..tensor.clone()
            })
            .collect();
        let head = safetensors::head(self.conversion.reader.metadata(), &moved);
        let head = head.map_err(self.conversion.refuse())?;
        let mut output = self.folder.file(name.as_ref())?;
        let inputs: Vec<&dyn Source> = self.conversion.reader.all_sources().collect();
        output.check_inputs(&inputs)?;
        output.write(&head)?;
        output.write_part(&self.data, start..end)?;
        output.finish()?;
        Ok(head.len() as u64 + (end - start))
    }
}

/// The key in `config.json` for the settings of the written weights.
const OURS: &str = "quantization_config";

/// The keys in `config.json` that releases of compressed-tensors have used for such
/// settings. In the input's file, their values state how the input was stored.
const THEIRS: [&str; 3] = [OURS, "compression_config", "sparsity_config"];

/// Returns the text of the output's `config.json`: the entries of the input's file, if
/// the input is a folder with one, where `settings` replace the entries that state how
/// the input's weights were stored. All other entries keep their order and their text.
fn config(input: &Input, settings: &str) -> Result<Vec<u8>> {
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
