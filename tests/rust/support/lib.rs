//! Shared support for the tests of this workspace: test vectors, servers, the command
//! line, memory accounting.

pub mod allocator;
pub mod archives;
pub mod cases;
pub mod checkpoints;
pub mod command;
pub mod fault_server;
pub mod faults;
pub mod foreign;
pub mod frames;
pub mod gguf;
pub mod http_request;
pub mod protobuf;
pub mod rng;
pub mod round_server;
pub mod schema;
pub mod store_proxy;
pub mod stub_hub;
pub mod tflite;
pub mod tier;
#[cfg(unix)]
pub mod unreadable;
pub mod upload_server;
pub mod ztensor2;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};
use zstn::Engine;
use zstn_core::dtype::Dtype;

use crate::rng::Rng;

/// Returns the path of the repository's root.
#[must_use]
pub fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(PathBuf::from)
        .unwrap_or_default()
}

/// Returns a native engine with two threads.
///
/// # Panics
/// If the threads cannot be started.
#[must_use]
pub fn native() -> Engine {
    Engine::new(2).expect("two threads")
}

/// Builds a safetensors file of one-dimensional tensors, given as name, dtype and
/// bytes.
///
/// # Panics
/// If a dtype is unknown or its elements are not whole bytes.
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
            "{}:{{\"dtype\":\"{dtype}\",\"shape\":[{}],\"data_offsets\":[{start},{}]}}",
            serde_json::Value::from(*name),
            bytes.len() / width,
            data.len()
        ));
    }
    let header = format!("{{{}}}", entries.join(","));
    with_header(header, data)
}

/// Joins a header and the data of its tensors to a safetensors file.
#[must_use]
pub fn with_header(header: impl AsRef<[u8]>, data: impl AsRef<[u8]>) -> Vec<u8> {
    let (header, data) = (header.as_ref(), data.as_ref());
    [&(header.len() as u64).to_le_bytes()[..], header, data].concat()
}

/// Returns a checkpoint of about `len_bytes` with three large tensors (weights, mostly
/// zeros, few distinct values), small tensors, tied copies, and a tensor of odd length.
#[must_use]
pub fn many_kinds(len_bytes: usize) -> Vec<u8> {
    let mut rng = Rng(11);
    let big = rng.bf16_weights(len_bytes / 2);
    let small = rng.bf16_weights(700);
    let odd = rng.bytes(1001);
    let mut sparse = rng.bf16_weights(len_bytes / 3);
    for item in sparse.chunks_exact_mut(2) {
        if rng.next_u64() % 5 > 1 {
            item.fill(0);
        }
    }
    let values: Vec<f32> = (0..40u8).map(|i| f32::from(i) * 0.037 - 0.5).collect();
    let palette: Vec<u8> = (0..len_bytes / 6)
        .flat_map(|_| {
            let pick = rng.bytes(2);
            values[usize::from(pick[0] % 7 * (pick[1] % 6))].to_le_bytes()
        })
        .collect();
    checkpoint(&[
        ("first", "BF16", &small),
        ("big", "BF16", &big),
        ("sparse", "BF16", &sparse),
        ("odd", "U8", &odd),
        ("palette", "F32", &palette),
        ("first.tied", "BF16", &small),
        ("big.tied", "BF16", &big),
    ])
}

/// Returns the SHA-256 of `bytes` in lowercase hex.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Locks a mutex, also after a test panicked while holding it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
