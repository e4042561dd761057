//! Test vectors under `tests/vectors`, the manifests that describe them, and the errors
//! that these expect of malformed files.

#![allow(missing_docs)] // the fields are named as in the manifests

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use zstn_core::{Error, ErrorKind, Result};

/// Returns the bytes of `tests/vectors/folder/name`.
///
/// # Panics
/// If the file cannot be read: the vectors are part of the repository.
#[must_use]
pub fn read(folder: &str, name: &str) -> Vec<u8> {
    let path = path(folder).join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the path of the folder `tests/vectors/folder`.
#[must_use]
pub fn path(folder: &str) -> PathBuf {
    crate::repository().join("tests/vectors").join(folder)
}

fn manifest<T: DeserializeOwned>(folder: &str) -> T {
    serde_json::from_slice(&read(folder, "manifest.json"))
        .unwrap_or_else(|error| panic!("manifest of {folder}: {error}"))
}

/// Returns the entries of the list `list` in the manifest of a folder.
///
/// # Panics
/// If the manifest has no such list.
#[must_use]
pub fn entries(folder: &str, list: &str) -> Vec<Value> {
    let manifest: Value = manifest(folder);
    manifest[list].as_array().expect("a list").clone()
}

/// Returns the manifest cases of type `zstn`. Delta cases have other fields and are
/// skipped.
fn of_type_zstn<T: DeserializeOwned>(folder: &str) -> Vec<T> {
    #[derive(Deserialize)]
    struct Manifest {
        cases: Vec<Value>,
    }
    manifest::<Manifest>(folder)
        .cases
        .into_iter()
        .filter(|case| case["type"] == "zstn")
        .map(|case| {
            serde_json::from_value(case)
                .unwrap_or_else(|error| panic!("manifest of {folder}: {error}"))
        })
        .collect()
}

/// A well-formed frame in `vectors/z4ai`.
#[derive(Debug, Deserialize)]
pub struct FrameCase {
    pub magic: String,
    pub original_len: u64,
    pub original_sha256: String,
    #[serde(default)]
    pub transform: Option<String>,
    #[serde(default)]
    pub numpy_dtype: Option<String>,
    #[serde(default)]
    pub shape: Option<Vec<u64>>,
}

/// Returns all well-formed frames, keyed by name.
#[must_use]
pub fn frames() -> BTreeMap<String, FrameCase> {
    #[derive(Deserialize)]
    struct Manifest {
        cases: BTreeMap<String, FrameCase>,
    }
    manifest::<Manifest>("z4ai").cases
}

/// A malformed frame and the error it must cause.
#[derive(Debug, Deserialize)]
pub struct BadFrameCase {
    pub why: String,
    pub entry: String,
    #[serde(default)]
    pub needs_output_limit: Option<u64>,
    #[serde(flatten)]
    pub refusal: Refusal,
}

/// Returns all malformed frames, keyed by name.
#[must_use]
pub fn bad_frames() -> BTreeMap<String, BadFrameCase> {
    #[derive(Deserialize)]
    struct Manifest {
        cases: BTreeMap<String, BadFrameCase>,
    }
    manifest::<Manifest>("z4ai-bad").cases
}

/// A file that a manifest lists.
#[derive(Debug, Deserialize)]
pub struct File {
    pub file: Option<String>,
    pub bytes: u64,
    pub sha256: String,
}

/// A tensor of a container, as the manifest describes it.
#[derive(Debug, Deserialize)]
pub struct TensorCase {
    pub name: String,
    pub dtype: Option<String>,
    pub shape: Option<Vec<u64>>,
    pub sha256: Option<String>,
}

/// The verdict of the official safetensors reader on the original file.
#[derive(Debug, Deserialize)]
pub struct Official {
    pub valid: bool,
}

/// A container of `vectors/zstn`, of type `zstn`.
#[derive(Debug, Deserialize)]
pub struct ContainerCase {
    pub name: String,
    #[serde(default)]
    pub made_by: Option<String>,
    pub original: Option<File>,
    pub container: Option<File>,
    pub official: Option<Official>,
    #[serde(default)]
    pub tensors: Option<Vec<TensorCase>>,
    #[serde(default)]
    pub layout: Option<LayoutCase>,
}

/// The byte ranges of a container's sections.
#[derive(Debug, Deserialize)]
pub struct LayoutCase {
    pub contiguous: u8,
    #[serde(default)]
    pub header_len: u64,
    #[serde(default)]
    pub data_len: u64,
}

impl ContainerCase {
    /// Returns the tensors; the slice is empty for layouts without tensors.
    #[must_use]
    pub fn tensors(&self) -> &[TensorCase] {
        self.tensors.as_deref().unwrap_or_default()
    }

    /// Returns the bytes of the container.
    #[must_use]
    pub fn packed(&self) -> Vec<u8> {
        read("zstn", &format!("{}.zstn", self.name))
    }

    /// Returns the bytes of the original safetensors file.
    #[must_use]
    pub fn original(&self) -> Vec<u8> {
        read("zstn", &format!("{}.safetensors", self.name))
    }
}

/// Returns all well-formed containers that are not deltas.
#[must_use]
pub fn containers() -> Vec<ContainerCase> {
    of_type_zstn("zstn")
}

/// A malformed container and the errors it must cause.
#[derive(Debug, Deserialize)]
pub struct BadContainerCase {
    pub name: String,
    pub file: String,
    pub verdict: String,
    pub why: String,
    pub original: File,
    /// The expected refusal when the whole file is unpacked.
    #[serde(flatten)]
    pub unpacked: Refusal,
    /// The expected refusal when the file is opened and its tensors are read by name;
    /// `None` if it equals `unpacked`.
    #[serde(default)]
    pub opened: Option<Refusal>,
}

/// Returns all malformed containers that are not deltas.
#[must_use]
pub fn bad_containers() -> Vec<BadContainerCase> {
    of_type_zstn("zstn-bad")
}

/// Returns the delta cases of a manifest. A `kind` of `z4dm` selects deltas between
/// checkpoints, `z4delta` those between buffers. The cases have different fields, so
/// they are returned as JSON.
#[must_use]
pub fn deltas(folder: &str, kind: &str) -> Vec<Value> {
    let all: Value = manifest(folder);
    let cases = all["cases"].as_array().cloned().unwrap_or_default();
    cases
        .into_iter()
        .filter(|case| case["type"] == kind)
        .collect()
}

/// Returns the bytes of the file that a manifest entry names.
///
/// # Panics
/// If the entry has no field `file`.
#[must_use]
pub fn named(folder: &str, entry: &Value) -> Vec<u8> {
    read(folder, entry["file"].as_str().expect("a file name"))
}

/// A tensor of a zTensor file, as the manifest describes it.
#[derive(Debug, Deserialize)]
pub struct ZTensorTensor {
    pub name: String,
    pub shape: Vec<u64>,
    /// SHA-256 of the dense elements in little-endian byte order.
    pub sha256: String,
}

/// A zTensor file and the safetensors file with the same tensors.
#[derive(Debug, Deserialize)]
pub struct ZTensorCase {
    pub file: String,
    pub format_version: String,
    pub tensors: Vec<ZTensorTensor>,
    pub truth: String,
}

/// Returns all well-formed zTensor files.
#[must_use]
pub fn ztensor() -> Vec<ZTensorCase> {
    #[derive(Deserialize)]
    struct Manifest {
        files: Vec<ZTensorCase>,
    }
    manifest::<Manifest>("ztensor").files
}

/// Returns the entries of the manifest for a folder of malformed files, whichever of
/// the known keys lists them.
///
/// # Panics
/// If the manifest has no such list.
#[must_use]
pub fn malformed(folder: &str) -> Vec<Value> {
    let all: Value = manifest(folder);
    let keys = ["cases", "files", "vectors"];
    let list = keys.iter().find_map(|&key| match all.get(key)? {
        Value::Object(cases) => Some(cases.values().cloned().collect()),
        list => list.as_array().cloned(),
    });
    list.unwrap_or_else(|| panic!("manifest of {folder} lists nothing"))
}

/// Returns the string in a manifest value.
///
/// # Panics
/// If the value is not a string.
#[must_use]
pub fn text(value: &Value) -> String {
    value.as_str().expect("text").into()
}

/// The error with which a malformed file must be rejected.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Refusal {
    /// Code of the rule that the file breaks, if the error is about a rule.
    #[serde(default)]
    pub rule: Option<String>,
    /// Kind of the error; `None` for `malformed`.
    #[serde(default)]
    pub error: Option<String>,
}

impl Refusal {
    /// Returns the refusal that a manifest entry states, if any.
    #[must_use]
    pub fn of(entry: &Value) -> Option<Self> {
        let field = |name: &str| entry.get(name).map(text);
        let refusal = Self {
            rule: field("rule"),
            error: field("error"),
        };
        (refusal.rule.is_some() || refusal.error.is_some()).then_some(refusal)
    }

    /// Returns the refusal that is expected when the file is opened with its format
    /// detected and its tensors are read individually. The manifest has it under
    /// `"opened"` where it differs from the refusal of the format's own reader.
    ///
    /// # Panics
    /// If the manifest entry states no refusal.
    #[must_use]
    pub fn of_opened(entry: &Value) -> Self {
        Self::of(entry.get("opened").unwrap_or(entry)).expect("a rule or a kind of error")
    }

    /// Checks that `result` is this refusal, and returns the error.
    ///
    /// # Panics
    /// If `result` is a value, or an error with another rule or kind.
    pub fn check<T>(&self, name: &str, result: Result<T>) -> Error {
        let Err(error) = result else {
            panic!("{name} was accepted");
        };
        let kind = self.error.as_deref();
        assert_eq!(
            error.rule().map(|rule| rule.code()),
            self.rule.as_deref(),
            "{name}: {error}"
        );
        assert_eq!(
            error.kind().code(),
            kind.unwrap_or(ErrorKind::Malformed.code()),
            "{name}: {error}"
        );
        error
    }
}
