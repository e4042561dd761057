//! Files of other projects: opens Gauss and zTensor files from memory with the
//! same sequence of reads as an HTTP reader, and builds a compressed-tensors
//! model in memory, with its configuration and its stored tensors.
#![allow(missing_docs)]

use std::collections::BTreeMap;

use serde::Deserialize;
use tempfile::TempDir;
use zstn_core::bytes::part;
use zstn_core::catalog::{FileCatalog, FileOpener};
use zstn_core::container::foreign::compressed_tensors::{
    Checkpoint, CheckpointEntry, Config, DenseTensor, Role, TensorSpec,
};
use zstn_core::container::foreign::gauss::{GaussIndex, IndexedTensor, ParsedIndex, decode};
use zstn_core::container::foreign::ztensor::{FOOTER_BYTES, Manifest, ZTensorFooter};
use zstn_core::container::safetensors::{Header, header_len_bytes};
use zstn_core::dtype::Dtype;
use zstn_core::engine::Engine;
use zstn_core::model::ModelBuilder;
use zstn_core::pure::Pure;
use zstn_core::{Error, Result, Rule};

use crate::cases;

/// The folder of the gauss vectors.
pub const GAUSS_FOLDER: &str = "gauss";

/// Parses the index of a file, first with `have` bytes and then with the lengths that
/// the parser requests. Returns the index and the number of reads.
pub fn open_gauss(file: &[u8], mut have: usize) -> Result<(GaussIndex, usize)> {
    let mut reads = 1;
    loop {
        match GaussIndex::parse(&file[..have], file.len() as u64)? {
            ParsedIndex::Complete(index) => return Ok((index, reads)),
            ParsedIndex::Needs(bytes) => {
                let bytes = usize::try_from(bytes).expect("in memory");
                assert!(bytes > have && bytes <= file.len(), "asks for {bytes}");
                (have, reads) = (bytes, reads + 1);
            }
        }
    }
}

/// Decodes all tensors of a file.
pub fn read_gauss(engine: &impl Engine, file: &[u8]) -> Result<Vec<(IndexedTensor, Vec<u8>)>> {
    let (index, _) = open_gauss(file, file.len())?;
    let mut all = Vec::new();
    for tensor in index.tensors {
        let bytes = decode(engine, &tensor, part(file, tensor.stored.clone()))?.into_owned();
        all.push((tensor, bytes));
    }
    Ok(all)
}

/// Returns the bytes of `tests/vectors/ztensor/name`.
pub fn vector(name: &str) -> Vec<u8> {
    cases::read("ztensor", name)
}

/// Opens a file of any format as an HTTP reader does, and returns the number of round
/// trips with it.
pub fn open_in_trips(file: &[u8]) -> Result<(FileCatalog, usize)> {
    open_named("", file)
}

/// Opens a file like [`open_in_trips`], whose name may determine its format.
pub fn open_named(name: &str, file: &[u8]) -> Result<(FileCatalog, usize)> {
    let len = file.len() as u64;
    let head = part(file, 0..FileOpener::head_len_bytes(len)).to_vec();
    let mut opening = FileOpener::named(name, len, head)?;
    let mut trips = 1;
    loop {
        let needs = opening.needs()?;
        if needs.is_empty() {
            return Ok((opening.finish(&Pure)?, trips));
        }
        trips += 1;
        assert!(trips < 5, "the opening goes on and on");
        for range in needs {
            opening.supply(range.start, part(file, range))?;
        }
    }
}

/// Decodes every tensor of a file in catalog order.
pub fn read_tensors(engine: &impl Engine, file: &[u8]) -> Result<Vec<Vec<u8>>> {
    read_opened(engine, &open_in_trips(file)?.0, file)
}

/// Opens a file by its name and reads everything. The result is the values of the
/// tensors by name.
///
/// # Errors
/// The first error: of the file, of a tensor that cannot be read, or of the values of a
/// tensor.
pub fn read_named(name: &str, file: &[u8]) -> Result<BTreeMap<String, Vec<u8>>> {
    let catalog = open_named(name, file)?.0;
    let model = ModelBuilder::new(vec![catalog.clone()], None, None)?.finish(&Pure)?;
    if let Some((_, refusal)) = model.refused().next() {
        return Err(refusal.clone());
    }
    let names = catalog.tensors().iter().map(|tensor| tensor.name.clone());
    Ok(names.zip(read_opened(&Pure, &catalog, file)?).collect())
}

/// Returns the broken rules of the tensors that cannot be read, by name.
///
/// # Panics
/// If the catalog makes no model.
#[must_use]
pub fn refused(catalog: FileCatalog) -> BTreeMap<String, Option<Rule>> {
    let model = ModelBuilder::new(vec![catalog], None, None).and_then(|b| b.finish(&Pure));
    let model = model.expect("a model");
    let refused = model.refused();
    refused
        .map(|(name, error)| (name.into(), error.rule()))
        .collect()
}

/// Decodes every tensor of an opened file in catalog order.
pub fn read_opened(
    engine: &impl Engine,
    catalog: &FileCatalog,
    file: &[u8],
) -> Result<Vec<Vec<u8>>> {
    let tensors = catalog.tensors().iter().enumerate();
    tensors
        .map(|(number, tensor)| {
            let stored = part(file, tensor.stored.clone());
            let bytes = catalog.decode(engine, number, stored)?.into_owned();
            assert_eq!(bytes.len() as u64, tensor.len_bytes());
            Ok(bytes)
        })
        .collect()
}

/// Parses the manifest of a complete file.
pub fn manifest(file: &[u8]) -> Result<Manifest> {
    let len = file.len() as u64;
    let tail = part(file, len.saturating_sub(FOOTER_BYTES)..len);
    let footer = ZTensorFooter::parse(file, tail, len)?;
    Manifest::parse(part(file, footer.manifest.clone()), &footer)
}

/// Names of the vector folders with well-formed and with malformed models.
pub const GOOD: &str = "compressed-tensors";
pub const BAD: &str = "compressed-tensors-bad";

#[derive(Clone)]
pub struct Model {
    pub config: Vec<u8>,
    pub tensors: Vec<(TensorSpec, Vec<u8>)>,
}

/// Creates a folder that contains a vector as a model: `config.json` and
/// `model.safetensors`.
pub fn model_folder(folder: &str, name: &str) -> TempDir {
    let model = tempfile::tempdir().expect("a folder");
    for (from, to) in [
        (".config.json", "config.json"),
        (".safetensors", "model.safetensors"),
    ] {
        let from = cases::path(folder).join(format!("{name}{from}"));
        std::fs::copy(from, model.path().join(to)).expect("copied");
    }
    model
}

/// Returns all tensors of a safetensors file with their bytes.
pub fn safetensors(file: &[u8]) -> Vec<(TensorSpec, Vec<u8>)> {
    let header_len = header_len_bytes(file, file.len() as u64).expect("a header");
    let (header, data) = file[8..].split_at(usize::try_from(header_len).expect("a length"));
    let header = Header::parse(header, data.len() as u64).expect("a header");
    let position = |n: u64| usize::try_from(n).expect("a position");
    header
        .tensors
        .iter()
        .map(|tensor| {
            let bytes = &data[position(tensor.span.start)..position(tensor.span.end)];
            (tensor.into(), bytes.to_vec())
        })
        .collect()
}

impl Model {
    pub fn vector(folder: &str, name: &str) -> Self {
        Self {
            config: cases::read(folder, &format!("{name}.config.json")),
            tensors: safetensors(&cases::read(folder, &format!("{name}.safetensors"))),
        }
    }

    /// Builds a model with one module called `p`, given its quantisation scheme, its
    /// format and its part tensors.
    pub fn module(scheme: &str, format: &str, parts: &[(&str, Dtype, &[u64], Vec<u8>)]) -> Self {
        let config = format!(
            r#"{{"quantization_config": {{"quant_method": "compressed-tensors", "version": "0.20.0",
                "format": "{format}", "quantization_status": "compressed", "config_groups":
                {{"group_0": {{"targets": ["Linear"], "weights": {scheme}}}}}}}}}"#
        );
        let tensors = parts.iter().map(|(name, dtype, shape, bytes)| {
            let stored = TensorSpec {
                name: format!("p.{name}"),
                dtype: *dtype,
                shape: shape.to_vec(),
            };
            (stored, bytes.clone())
        });
        Self {
            config: config.into_bytes(),
            tensors: tensors.collect(),
        }
    }

    pub fn checkpoint(&self) -> Result<Checkpoint> {
        let config = Config::parse(&self.config)?;
        Checkpoint::new(
            &config,
            self.tensors.iter().map(|(stored, _)| stored.clone()),
        )
    }

    pub fn bytes(&self, name: &str) -> &[u8] {
        let found = self.tensors.iter().find(|(stored, _)| stored.name == name);
        &found.expect("a stored tensor").1
    }

    /// Returns the dense tensor called `name`.
    pub fn read(&self, name: &str) -> Result<DenseTensor> {
        let checkpoint = self.checkpoint()?;
        match checkpoint.find(name)? {
            CheckpointEntry::Stored(stored) => {
                let bytes = self.bytes(name).to_vec();
                if stored.len_bytes()? != bytes.len() as u64 {
                    return Err(Error::invalid_input("no safetensors file would say so"));
                }
                Ok(DenseTensor {
                    dtype: stored.dtype,
                    shape: stored.shape.clone(),
                    bytes,
                })
            }
            CheckpointEntry::Weight(weight) => {
                let parts: Vec<&[u8]> = weight
                    .parts()
                    .iter()
                    .map(|part| self.bytes(&part.stored.name))
                    .collect();
                let dense = weight.decode(&parts)?;
                // The dtype and shape computed before decoding match the decoded
                // result.
                let of_shape = weight.parts().iter().position(|p| p.role == Role::Shape);
                let shape = weight.shape_from(of_shape.map_or(&[], |place| parts[place]))?;
                assert_eq!(shape, dense.shape);
                assert!(weight.shape().is_none_or(|known| known == shape));
                assert_eq!(weight.dtype(), dense.dtype);
                Ok(dense)
            }
            other => panic!("{other:?} was found"),
        }
    }

    /// Returns the names of the tensors that are decoded from parts.
    pub fn weights(&self) -> Vec<String> {
        let checkpoint = self.checkpoint().expect("a checkpoint");
        let weights = checkpoint
            .entries()
            .filter(|(_, entry)| matches!(entry, CheckpointEntry::Weight(_)));
        weights.map(|(name, _)| name.to_string()).collect()
    }
}

#[derive(Deserialize)]
pub struct Case {
    pub name: String,
    pub format: Option<String>,
    #[serde(default)]
    pub tensors: BTreeMap<String, TensorCase>,
}

#[derive(Deserialize)]
pub struct TensorCase {
    pub dtype: String,
    pub shape: Vec<u64>,
    pub sha256: String,
}

pub fn cases(folder: &str) -> Vec<Case> {
    let vectors = cases::entries(folder, "vectors").into_iter();
    let cases: Vec<Case> = vectors
        .map(|case| serde_json::from_value(case).expect("a case"))
        .collect();
    assert!(!cases.is_empty());
    cases
}
