//! Shared by the tests of this workspace: the golden vectors and the two
//! engines every one of them runs on.

pub mod cases;
pub mod memory;
pub mod rng;

use std::path::PathBuf;

use sha2::{Digest, Sha256};
use zstn_core::dtype::Dtype;

/// The top of the repository.
#[must_use]
pub fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(PathBuf::from)
        .unwrap_or_default()
}

/// A safetensors file of these tensors, given as name, dtype and bytes; all
/// of one dimension.
///
/// # Panics
/// If there is no such dtype, or its elements are not whole bytes.
#[must_use]
pub fn checkpoint(tensors: &[(&str, &str, &[u8])]) -> Vec<u8> {
    let mut data = Vec::new();
    let mut entries = Vec::new();
    for (name, dtype, bytes) in tensors {
        let start = data.len();
        data.extend_from_slice(bytes);
        let width = Dtype::ALL
            .iter()
            .find(|known| known.name() == *dtype)
            .and_then(|known| known.len_bytes())
            .expect("a dtype of whole bytes");
        entries.push(format!(
            "\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":[{}],\"data_offsets\":[{start},{}]}}",
            bytes.len() / width,
            data.len()
        ));
    }
    let header = format!("{{{}}}", entries.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(&data);
    file
}

/// SHA-256 in lower-case hex.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
