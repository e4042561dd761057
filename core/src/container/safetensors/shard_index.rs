//! The index of a checkpoint in several files, `model.safetensors.index.json`
//! (docs/formats/sharded.md).

use alloc::collections::btree_map::{BTreeMap, Entry};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::{fmt, slice};

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::limits::HEADER_LEN_BYTES;
use crate::{Error, Result, Rule};

/// The suffix of the names of shard indices.
pub const SHARD_INDEX_SUFFIX: &str = ".index.json";
/// The suffix of the names of the indices that Keras writes.
pub const KERAS_INDEX_SUFFIX: &str = ".weights.json";
/// The suffix of the names of the files that such an index lists.
const KERAS_SHARD_SUFFIX: &str = ".weights.h5";

/// The index of a sharded checkpoint, which assigns each tensor to a file. An index of
/// Keras only lists the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardIndex {
    files: Vec<String>,
    weights: BTreeMap<String, usize>,
}

#[derive(serde::Deserialize)]
struct Document {
    weight_map: Pairs,
}

/// The members of a JSON object, in order and including duplicates.
struct Pairs(Vec<(String, FileNames)>);

/// The value of a member: the name of a file, or the list of files over which Keras has
/// distributed the tensors of a group.
enum FileNames {
    One(String),
    Several(Vec<String>),
}

impl<'de> Deserialize<'de> for FileNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = FileNames;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a file name or a list of file names")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<FileNames, E> {
                Ok(FileNames::One(name.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<FileNames, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = list.next_element()? {
                    names.push(name);
                }
                Ok(FileNames::Several(names))
            }
        }
        deserializer.deserialize_any(Names)
    }
}

impl FileNames {
    fn all(&self) -> &[String] {
        match self {
            Self::One(name) => slice::from_ref(name),
            Self::Several(names) => names,
        }
    }

    /// Returns the file of a tensor; `None` if the member called `name` is a group of a
    /// Keras file, whose tensors it does not name.
    fn of_tensor(&self, name: &str) -> Option<&str> {
        match self {
            Self::One(file) if name.starts_with('/') && file.ends_with(KERAS_SHARD_SUFFIX) => None,
            Self::One(file) => Some(file),
            Self::Several(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object with a file name for every tensor")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(All)
    }
}

impl ShardIndex {
    /// Returns whether a file that begins with `head` is JSON text. A shard
    /// index is; no model file is.
    #[must_use]
    pub fn recognise(head: &[u8]) -> bool {
        // A safetensors file begins with the length of its header. The length
        // may look like a brace, but its upper bytes are zero.
        let text = head.trim_ascii_start();
        let is_text = !head[..head.len().min(8)].contains(&0);
        is_text
            && text
                .strip_prefix(b"{")
                .is_some_and(|rest| matches!(rest.trim_ascii_start().first(), Some(b'"' | b'}')))
    }

    /// Parses the text of an index (docs/formats/sharded.md 1). A file name
    /// must be plain, without a path, so that the file is in the folder of the
    /// index.
    pub fn parse(json: &[u8]) -> Result<Self> {
        if json.len() as u64 > HEADER_LEN_BYTES {
            return Err(Error::limit(format!(
                "an index of {} bytes is over the cap of {HEADER_LEN_BYTES}",
                json.len()
            )));
        }
        let document: Document = serde_json::from_slice(json).map_err(|error| {
            Error::malformed(
                Rule::ShardIndex,
                format!("this is not the index of a sharded checkpoint: {error}"),
            )
        })?;
        let Pairs(pairs) = document.weight_map;
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        for (tensor, files) in &pairs {
            for file in files.all() {
                if !is_plain(file) {
                    return Err(Error::malformed(
                        Rule::ShardFileName,
                        format!("the shard {file} is not a plain file name"),
                    )
                    .tensor(tensor));
                }
                numbers.insert(file, 0);
            }
        }
        for (number, value) in numbers.values_mut().enumerate() {
            *value = number;
        }
        let files: Vec<String> = numbers.keys().map(ToString::to_string).collect();
        let mut weights = BTreeMap::new();
        for (tensor, files) in &pairs {
            let Some(file) = files.of_tensor(tensor) else {
                continue;
            };
            let number = numbers[file];
            match weights.entry(tensor.clone()) {
                Entry::Vacant(entry) => {
                    entry.insert(number);
                }
                Entry::Occupied(entry) if *entry.get() == number => {}
                Entry::Occupied(_) => {
                    return Err(Error::malformed(
                        Rule::ShardTensorTwice,
                        "the index lists the tensor in two files",
                    )
                    .tensor(tensor));
                }
            }
        }
        if files.is_empty() {
            return Err(Error::malformed(
                Rule::ShardIndex,
                "the index of the shards names no tensor",
            ));
        }
        Ok(Self { files, weights })
    }

    /// Returns the names of the files, sorted.
    #[must_use]
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// Returns the number of the file that the index assigns the tensor to, if
    /// the index lists it.
    #[must_use]
    pub fn file_of(&self, tensor: &str) -> Option<usize> {
        self.weights.get(tensor).copied()
    }

    /// Returns all tensors, sorted by name, with the numbers of their files.
    pub fn weights(&self) -> impl Iterator<Item = (&str, usize)> {
        self.weights
            .iter()
            .map(|(tensor, file)| (tensor.as_str(), *file))
    }
}

fn is_plain(file: &str) -> bool {
    !file.is_empty() && file != "." && file != ".." && !file.contains(['/', '\\', ':', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(json: &str) -> Option<Rule> {
        ShardIndex::parse(json.as_bytes()).unwrap_err().rule()
    }

    #[test]
    fn files_are_numbered_by_name() {
        let index = ShardIndex::parse(
            br#"{"metadata":{"total_size":9},"weight_map":{"z":"b.safetensors","a":"b.safetensors","m":"a.safetensors"}}"#,
        )
        .unwrap();
        assert_eq!(index.files(), ["a.safetensors", "b.safetensors"]);
        let weights: Vec<_> = index.weights().collect();
        assert_eq!(weights, [("a", 1), ("m", 0), ("z", 1)]);
        assert_eq!(index.file_of("z"), Some(1));
        assert_eq!(index.file_of("y"), None);
    }

    #[test]
    fn json_is_told_from_safetensors() {
        for json in ["{\"weight_map\":{}}", " \n{ \t\"metadata\":", "{}"] {
            assert!(ShardIndex::recognise(json.as_bytes()), "{json}");
        }
        // The length field of a header of 8827 bytes is spelled `{"`.
        let mut file = 8827u64.to_le_bytes().to_vec();
        file.extend(b"{\"w\":");
        for other in [&file[..], b"", b"{", b"ZSTN", b"[{\"a\"", b"<html>"] {
            assert!(!ShardIndex::recognise(other), "{other:?}");
        }
    }

    #[test]
    fn an_index_of_keras_lists_files() {
        let index = ShardIndex::parse(
            br#"{"weight_map":{"/a/vars":["m_1.weights.h5","m_0.weights.h5"],"/b/vars":"m_1.weights.h5","/c":"c.safetensors"}}"#,
        )
        .unwrap();
        let files = ["c.safetensors", "m_0.weights.h5", "m_1.weights.h5"];
        assert_eq!(index.files(), files);
        assert_eq!(index.weights().collect::<Vec<_>>(), [("/c", 0)]);
    }

    #[test]
    fn files_elsewhere_are_refused() {
        for file in [
            "../a",
            "/etc/passwd",
            "sub/a",
            "c:a",
            "..\\\\a",
            "",
            ".",
            "..",
        ] {
            let json = format!(r#"{{"weight_map":{{"w":"{file}"}}}}"#);
            assert_eq!(rule(&json), Some(Rule::ShardFileName), "{file}");
        }
    }

    #[test]
    fn what_is_no_index_is_refused() {
        for json in [
            "",
            "{}",
            "[]",
            r#"{"weight_map":{}}"#,
            r#"{"weight_map":{"w":1}}"#,
            r#"{"weight_map":"w"}"#,
            r#"{"weight_map":{"w":"a"}"#,
        ] {
            assert_eq!(rule(json), Some(Rule::ShardIndex), "{json}");
        }
        for json in [r#"{"weight_map":{"w":[]}}"#, r#"{"weight_map":{"w":[1]}}"#] {
            assert_eq!(rule(json), Some(Rule::ShardIndex), "{json}");
        }
        let elsewhere = r#"{"weight_map":{"/a/vars":["a.weights.h5","../b.weights.h5"]}}"#;
        assert_eq!(rule(elsewhere), Some(Rule::ShardFileName));
        let twice = r#"{"weight_map":{"w":"a","w":"b"}}"#;
        assert_eq!(rule(twice), Some(Rule::ShardTensorTwice));
        assert!(ShardIndex::parse(br#"{"weight_map":{"w":"a","w":"a"}}"#).is_ok());
    }
}
