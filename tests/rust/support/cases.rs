//! The vectors under `tests/vectors` and their manifests.

#![allow(missing_docs)] // field names are those of the manifests

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::refusal::Refusal;

/// Returns the bytes of `folder/name`.
///
/// # Panics
/// If the file cannot be read: vectors are part of the repository.
#[must_use]
pub fn read(folder: &str, name: &str) -> Vec<u8> {
    let path = folder_path(folder).join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn folder_path(folder: &str) -> PathBuf {
    crate::repository().join("tests/vectors").join(folder)
}

fn manifest<T: DeserializeOwned>(folder: &str) -> T {
    serde_json::from_slice(&read(folder, "manifest.json"))
        .unwrap_or_else(|error| panic!("manifest of {folder}: {error}"))
}

/// Returns the cases of a manifest that are containers. Deltas have other fields.
fn of_type_zstn<T: DeserializeOwned>(folder: &str) -> Vec<T> {
    #[derive(Deserialize)]
    struct Manifest {
        cases: Vec<serde_json::Value>,
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

/// A frame of `vectors/z4ai`.
#[derive(Debug, Deserialize)]
pub struct FrameCase {
    pub magic: String,
    pub original_len: u64,
    pub original_sha256: String,
    #[serde(default)]
    pub transform: Option<String>,
    #[serde(default)]
    pub plane_methods: Vec<u8>,
    #[serde(default)]
    pub numpy_dtype: Option<String>,
    #[serde(default)]
    pub shape: Option<Vec<u64>>,
}

/// Returns all good frames by name.
#[must_use]
pub fn frames() -> BTreeMap<String, FrameCase> {
    #[derive(Deserialize)]
    struct Manifest {
        cases: BTreeMap<String, FrameCase>,
    }
    manifest::<Manifest>("z4ai").cases
}

/// A malformed frame.
#[derive(Debug, Deserialize)]
pub struct BadFrameCase {
    pub why: String,
    pub entry: String,
    #[serde(default)]
    pub needs_output_limit: Option<u64>,
    #[serde(flatten)]
    pub refusal: Refusal,
}

/// Returns all malformed frames by name.
#[must_use]
pub fn bad_frames() -> BTreeMap<String, BadFrameCase> {
    #[derive(Deserialize)]
    struct Manifest {
        cases: BTreeMap<String, BadFrameCase>,
    }
    manifest::<Manifest>("z4ai-bad").cases
}

/// A file named by a manifest.
#[derive(Debug, Deserialize)]
pub struct File {
    pub file: Option<String>,
    pub bytes: u64,
    pub sha256: String,
}

/// A tensor of a container.
#[derive(Debug, Deserialize)]
pub struct TensorCase {
    pub name: String,
    pub dtype: Option<String>,
    pub shape: Option<Vec<u64>>,
    pub sha256: Option<String>,
}

/// Whether the official reader accepts the original.
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

/// The ranges of a container's parts.
#[derive(Debug, Deserialize)]
pub struct LayoutCase {
    pub contiguous: u8,
    #[serde(default)]
    pub header_len: u64,
    #[serde(default)]
    pub data_len: u64,
}

impl ContainerCase {
    /// The tensors; none for layouts without tensors.
    #[must_use]
    pub fn tensors(&self) -> &[TensorCase] {
        self.tensors.as_deref().unwrap_or_default()
    }

    /// Bytes of the container.
    #[must_use]
    pub fn packed(&self) -> Vec<u8> {
        read("zstn", &format!("{}.zstn", self.name))
    }

    /// Bytes of the original.
    #[must_use]
    pub fn original(&self) -> Vec<u8> {
        read("zstn", &format!("{}.safetensors", self.name))
    }
}

/// Returns all good containers without deltas.
#[must_use]
pub fn containers() -> Vec<ContainerCase> {
    of_type_zstn("zstn")
}

/// A malformed container.
#[derive(Debug, Deserialize)]
pub struct BadContainerCase {
    pub name: String,
    pub file: String,
    pub verdict: String,
    pub why: String,
    pub original: File,
    /// The refusal when the whole file is unpacked.
    #[serde(flatten)]
    pub unpacked: Refusal,
    /// The refusal when its tensors are read by name, where that differs.
    #[serde(default)]
    pub opened: Option<Refusal>,
}

/// Returns all malformed containers without deltas.
#[must_use]
pub fn bad_containers() -> Vec<BadContainerCase> {
    of_type_zstn("zstn-bad")
}

/// Returns the delta cases of a manifest, whose fields differ from case to case:
/// `kind` is `z4dm` for checkpoints, `z4delta` for buffers.
#[must_use]
pub fn deltas(folder: &str, kind: &str) -> Vec<serde_json::Value> {
    let all: serde_json::Value = manifest(folder);
    let cases = all["cases"].as_array().cloned().unwrap_or_default();
    cases
        .into_iter()
        .filter(|case| case["type"] == kind)
        .collect()
}

/// Returns the bytes of the file that a manifest's entry names.
///
/// # Panics
/// If the entry names no file.
#[must_use]
pub fn named(folder: &str, entry: &serde_json::Value) -> Vec<u8> {
    read(folder, entry["file"].as_str().expect("a file name"))
}

/// A tensor of a zTensor file.
#[derive(Debug, Deserialize)]
pub struct ZTensorTensor {
    pub name: String,
    pub shape: Vec<u64>,
    /// SHA-256 of the dense elements, little-endian.
    pub sha256: String,
}

/// A zTensor file, and the safetensors file of the same tensors.
#[derive(Debug, Deserialize)]
pub struct ZTensorCase {
    pub file: String,
    pub format_version: String,
    pub tensors: Vec<ZTensorTensor>,
    pub truth: String,
}

/// Returns all good zTensor files.
#[must_use]
pub fn ztensor() -> Vec<ZTensorCase> {
    #[derive(Deserialize)]
    struct Manifest {
        files: Vec<ZTensorCase>,
    }
    manifest::<Manifest>("ztensor").files
}

/// Returns the entries of the manifest of a folder of malformed files, under any
/// of its keys.
///
/// # Panics
/// If the manifest has no such list.
#[must_use]
pub fn malformed(folder: &str) -> Vec<serde_json::Value> {
    let all: serde_json::Value = manifest(folder);
    let keys = ["cases", "files", "vectors"];
    let list = keys.iter().find_map(|&key| match all.get(key)? {
        serde_json::Value::Object(cases) => Some(cases.values().cloned().collect()),
        list => list.as_array().cloned(),
    });
    list.unwrap_or_else(|| panic!("manifest of {folder} lists nothing"))
}

/// Returns the text of a manifest's value.
///
/// # Panics
/// If the value is not a text.
#[must_use]
pub fn text(value: &serde_json::Value) -> String {
    value.as_str().expect("text").into()
}
