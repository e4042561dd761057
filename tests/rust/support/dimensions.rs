//! Safetensors files with a tensor of very many dimensions.

use zstn_core::catalog::{FileCatalog, FileOpener};
use zstn_core::pure::Pure;
use zstn_core::{Error, ErrorKind, Result};

/// Returns a safetensors file with two tensors. The second, `deep`, has three bytes and
/// `dimensions` dimensions.
#[must_use]
pub fn safetensors(dimensions: usize) -> Vec<u8> {
    let ones = ",1".repeat(dimensions - 1);
    let header = format!(
        r#"{{"flat":{{"dtype":"U8","shape":[2],"data_offsets":[0,2]}},"deep":{{"dtype":"U8","shape":[3{ones}],"data_offsets":[2,5]}}}}"#
    );
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(b"12345");
    file
}

/// Opens a file in memory.
///
/// # Errors
/// Any error that opening the file returns.
pub fn open(file: Vec<u8>) -> Result<FileCatalog> {
    FileOpener::new(file.len() as u64, file)?.finish(&Pure)
}

/// Checks that the error rejects the number of dimensions of the tensor `deep`.
///
/// # Panics
/// If it is another error.
pub fn assert_refused(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    let rule = error.rule().map(|rule| rule.code());
    assert_eq!(rule, Some("tensor.dimensions"), "{error}");
    assert_eq!(error.tensor_name(), Some("deep"), "{error}");
}
