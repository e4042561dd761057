//! zTensor: files of the released packages decode correctly, files written by zstn
//! equal them byte for byte, and malformed ones are refused.

mod damage;
mod written;

use std::borrow::Cow;

use zstn_core::bytes::part;
use zstn_core::catalog::Kind;
use zstn_core::engine::Engine;
use zstn_core::pure::Pure;
use zstn_tests::ztensor::{native, open, vector};
use zstn_tests::{cases, sha256};

fn decode_to_their_truth(engine: &impl Engine) {
    let mut decoded = 0;
    for case in cases::ztensor() {
        let (name, file) = (&case.file, vector(&case.file));
        let (catalog, trips) = open(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(catalog.kind(), Kind::ZTensor);
        assert!(trips <= 2, "{name}: {trips} round trips");
        assert_eq!(catalog.tensors().len(), case.tensors.len(), "{name}");
        let truth = vector(&case.truth);
        let truth = safetensors::SafeTensors::deserialize(&truth).expect("a safetensors file");
        assert_eq!(truth.len(), case.tensors.len(), "{name}");
        for told in &case.tensors {
            let number = catalog.find(&told.name).expect("listed");
            let tensor = &catalog.tensors()[number];
            let truth = truth.tensor(&told.name).expect("in the truth");
            let shape: Vec<u64> = truth.shape().iter().map(|&d| d as u64).collect();
            assert_eq!(tensor.shape, shape, "{name}/{}", told.name);
            let dtype = format!("{:?}", truth.dtype());
            assert_eq!(tensor.dtype.name(), dtype, "{name}/{}", told.name);
            let bytes = catalog
                .decode(engine, number, part(&file, tensor.stored.clone()))
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(*bytes == *truth.data(), "{name}/{}", told.name);
            assert_eq!(sha256(&bytes), told.sha256, "{name}/{}", told.name);
            decoded += 1;
        }
    }
    assert!(decoded > 100, "only {decoded} tensors");
}

#[test]
fn vectors_decode_with_c_zstd() {
    decode_to_their_truth(&native());
}

#[test]
fn vectors_decode_with_rust_alone() {
    decode_to_their_truth(&Pure);
}

#[test]
fn plain_tensors_are_not_copied() {
    let file = vector("v01_py011_basic.zt");
    let (catalog, _) = open(&file).expect("a vector");
    for (number, tensor) in catalog.tensors().iter().enumerate() {
        let stored = part(&file, tensor.stored.clone());
        let bytes = catalog.decode(&Pure, number, stored).expect("plain");
        assert!(matches!(bytes, Cow::Borrowed(same) if same.as_ptr() == stored.as_ptr()));
    }
}
