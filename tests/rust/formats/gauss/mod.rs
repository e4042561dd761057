//! Gauss files made by the real package are read exactly, and malformed ones are
//! refused.

mod coder;
mod write;

use serde_json::Value;
use zstn_core::ErrorKind;
use zstn_core::bytes::part;
use zstn_core::container::foreign::gauss::{TensorCoding, decode_shard};
use zstn_core::engine::Engine;
use zstn_core::pure::Pure;
use zstn_tests::cases::{self, text};
use zstn_tests::checkpoints::Checkpoint;
use zstn_tests::gauss::{FOLDER, open, read_all};

fn manifest(folder: &str, list: &str) -> Vec<Value> {
    let manifest: Value =
        serde_json::from_slice(&cases::read(folder, "manifest.json")).expect("JSON");
    manifest[list].as_array().expect("a list").clone()
}

fn vectors() -> Vec<(String, Vec<u8>, Value)> {
    manifest(FOLDER, "vectors")
        .into_iter()
        .map(|vector| {
            let name = text(&vector["name"]);
            let file = cases::read(FOLDER, &format!("{name}.gauss"));
            (name, file, vector)
        })
        .collect()
}

fn vectors_restore(engine: &impl Engine) {
    let mut tensors = 0;
    for (name, file, vector) in vectors() {
        let restored = cases::read(FOLDER, &format!("{name}.restored.safetensors"));
        let truth = Checkpoint::parse(&restored);
        let read = read_all(engine, &file).unwrap_or_else(|error| panic!("{name}: {error}"));
        let names: Vec<&str> = read.iter().map(|(t, _)| t.name.as_str()).collect();
        let order = vector["order_in_file"].as_array().expect("a list");
        assert_eq!(
            names,
            order
                .iter()
                .map(|n| n.as_str().unwrap())
                .collect::<Vec<_>>()
        );
        assert_eq!(read.len(), truth.header.tensors.len(), "{name}");
        for (tensor, bytes) in read {
            let (expected, expected_bytes) = truth.tensor(&tensor.name);
            assert_eq!(tensor.dtype, expected.dtype, "{name}/{}", tensor.name);
            assert_eq!(tensor.shape, expected.shape, "{name}/{}", tensor.name);
            assert!(bytes == expected_bytes, "{name}/{} differs", tensor.name);
            tensors += 1;
        }
    }
    assert!(tensors >= 80, "only {tensors} tensors");
}

#[test]
fn vectors_restore_with_c_zstd_and_threads() {
    vectors_restore(&zstn::Engine::new(2).expect("two threads"));
}

#[test]
fn vectors_restore_with_rust_alone() {
    vectors_restore(&Pure);
}

#[test]
fn the_index_is_what_the_manifest_says() {
    for (name, file, vector) in vectors() {
        let (index, _) = open(&file, file.len()).expect(&name);
        assert_eq!(
            Value::from(index.version),
            vector["format_version"],
            "{name}"
        );
        assert_eq!(index.trailing_bytes, 0, "{name}");
        for truth in vector["tensors"].as_array().expect("a list") {
            let found = index.find(&text(&truth["name"]));
            if truth["route"] == "absent" {
                assert_eq!(found.unwrap_err().kind(), ErrorKind::NotFound);
                continue;
            }
            let tensor = found.expect(&name);
            assert_eq!(
                truth["route"] == "raw",
                tensor.coding == TensorCoding::Raw,
                "{name}"
            );
            let shards = tensor.shards();
            let list = |field: &str| truth[field].as_array().cloned().unwrap_or_default();
            let ours = |number: fn(&zstn_core::container::foreign::gauss::Shard) -> u64| {
                shards
                    .iter()
                    .map(number)
                    .map(Value::from)
                    .collect::<Vec<_>>()
            };
            assert_eq!(list("K"), ours(|s| s.mixture.len() as u64), "{name}");
            assert_eq!(list("scale"), ours(|s| s.scale.into()), "{name}");
            assert_eq!(list("idx_words"), ours(|s| s.index_words.into()), "{name}");
            assert_eq!(
                list("resid_words"),
                ours(|s| s.residual_words.into()),
                "{name}"
            );
        }
    }
}

#[test]
fn one_shard_reads_alone() {
    let mut shards = 0;
    for (name, file, _) in vectors() {
        for (tensor, bytes) in read_all(&Pure, &file).expect(&name) {
            let width = tensor.dtype.len_bytes().expect("whole bytes") as u64;
            for (number, shard) in tensor.shards().iter().enumerate() {
                let stored = part(&file, shard.stored.clone());
                let own = decode_shard(&tensor, number, stored).expect(&name);
                let span = shard.elements.start * width..shard.elements.end * width;
                assert!(own == part(&bytes, span), "{name}/{} {number}", tensor.name);
                shards += 1;
            }
            let error = decode_shard(&tensor, tensor.shards().len(), &[]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
    }
    assert!(shards >= 80, "only {shards} shards");
}

#[test]
fn an_index_is_found_from_any_head() {
    for (name, file, _) in vectors() {
        let whole = open(&file, file.len()).expect(&name).0;
        for head in [0, 8, 16, 20, 100, 1000] {
            let (index, reads) = open(&file, head.min(file.len())).expect(&name);
            assert_eq!(index, whole, "{name}");
            assert!(reads <= 4, "{name}: {reads} reads from {head} bytes");
        }
    }
}

#[test]
fn every_truncation_is_refused() {
    for name in ["mixed_dtypes", "sharded_bf16", "legacy_v1", "legacy_v3"] {
        let file = cases::read(FOLDER, &format!("{name}.gauss"));
        for len in 0..file.len() {
            let error = read_all(&Pure, &file[..len]).expect_err("cut");
            assert_eq!(
                error.kind(),
                ErrorKind::Malformed,
                "{name} cut at {len}: {error}"
            );
        }
    }
}
