//! Headers of very many dimensions and very many tensors.

use zstn_core::ErrorKind;
use zstn_core::catalog::{FileCatalog, FileOpener};
use zstn_core::model::ModelBuilder;
use zstn_core::pure::Pure;
use zstn_core::{Error, Result};
use zstn_tests::memory::{alone, peak_bytes};

/// A safetensors file of one tensor, `deep`, with that many dimensions and
/// three bytes, and of another before it.
fn safetensors(dimensions: usize) -> Vec<u8> {
    let ones = ",1".repeat(dimensions - 1);
    let header = format!(
        r#"{{"flat":{{"dtype":"U8","shape":[2],"data_offsets":[0,2]}},"deep":{{"dtype":"U8","shape":[3{ones}],"data_offsets":[2,5]}}}}"#
    );
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(b"12345");
    file
}

fn open(file: Vec<u8>) -> Result<FileCatalog> {
    FileOpener::new(file.len() as u64, file)?.finish(&Pure)
}

fn is_refused(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    let rule = error.rule().map(|rule| rule.code());
    assert_eq!(rule, Some("tensor.dimensions"), "{error}");
    assert_eq!(error.tensor_name(), Some("deep"), "{error}");
}

#[test]
fn headers_cost_memory_in_proportion() {
    let _alone = alone();
    // Two bytes of the header for each dimension, which take eight if kept.
    let file = safetensors(2_000_000);
    let len = file.len();
    let (result, peak) = peak_bytes(|| open(file));
    is_refused(&result.expect_err("over the limit"));
    assert!(peak < 3 * len / 2, "{peak} bytes for a header of {len}");

    let entry = |n: usize| format!(r#""{n:07}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#);
    let tensors = 50_000;
    let entries: Vec<String> = (0..tensors).map(entry).collect();
    let header = format!("{{{}}}", entries.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    drop((header, entries));
    let (model, peak) = peak_bytes(|| {
        let catalog = open(file)?;
        ModelBuilder::new(vec![catalog], None, None)?.finish(&Pure)
    });
    assert_eq!(model.expect("a model").tensors().len(), tensors);
    assert!(peak < 600 * tensors, "{} bytes a tensor", peak / tensors);
}
