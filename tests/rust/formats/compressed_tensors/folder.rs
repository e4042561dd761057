//! Models in folders, in a single file and in shards.

use std::path::Path;

use serde_json::json;
use zstn::{Error, Reader};
use zstn_core::catalog::Kind;
use zstn_tests::cases::read;
use zstn_tests::checkpoints;
use zstn_tests::compressed_model::GOOD;
use zstn_tests::compressed_model::safetensors;

fn write(folder: &Path, name: &str, bytes: &[u8]) {
    std::fs::write(folder.join(name), bytes).expect("a file");
}

fn check(folder: &Path, vector: &str) {
    let reader = Reader::open(folder).expect("a model");
    assert_eq!(reader.model().kind(), Kind::CompressedTensors);
    assert!(!reader.model().is_rotated());
    for (truth, bytes) in safetensors(&read(GOOD, &format!("{vector}.dense.safetensors"))) {
        let number = reader.model().find(&truth.name).expect("in the list");
        let listed = &reader.tensors()[number];
        assert_eq!((listed.dtype, &listed.shape), (truth.dtype, &truth.shape));
        assert_eq!(listed.len_bytes(), bytes.len() as u64);
        let tensor = reader.read(&truth.name).expect("a tensor");
        assert_eq!((tensor.dtype, &tensor.shape), (truth.dtype, &truth.shape));
        assert!(tensor.bytes == bytes, "{}", truth.name);
    }
    let error = reader.read("nothing").expect_err("no such tensor");
    assert!(error.to_string().contains("nothing"));
}

#[test]
fn a_folder_with_one_file() {
    for vector in ["mixed_int8_w4", "sb013_f32", "nvfp4_g16"] {
        let folder = tempfile::tempdir().expect("a folder");
        write(
            folder.path(),
            "config.json",
            &read(GOOD, &format!("{vector}.config.json")),
        );
        let model = read(GOOD, &format!("{vector}.safetensors"));
        write(folder.path(), "model.safetensors", &model);
        check(folder.path(), vector);
    }
}

#[test]
fn parts_of_a_weight_in_different_shards() {
    let vector = "pack013_w4_g32_asym_gidx";
    let folder = tempfile::tempdir().expect("a folder");
    write(
        folder.path(),
        "config.json",
        &read(GOOD, &format!("{vector}.config.json")),
    );
    let tensors = safetensors(&read(GOOD, &format!("{vector}.safetensors")));
    let mut map = serde_json::Map::new();
    for shard in 0..3 {
        let name = format!("model-{shard}.safetensors");
        let own: Vec<_> = tensors.iter().skip(shard).step_by(3).collect();
        for (stored, _) in &own {
            map.insert(stored.name.clone(), json!(name));
        }
        let own = own.into_iter().map(|(stored, bytes)| (stored, &bytes[..]));
        write(folder.path(), &name, &checkpoints::safetensors(own));
    }
    let index = json!({ "metadata": {}, "weight_map": map }).to_string();
    write(
        folder.path(),
        "model.safetensors.index.json",
        index.as_bytes(),
    );
    check(folder.path(), vector);
}

#[test]
fn an_index_reaches_no_file_outside() {
    let folder = tempfile::tempdir().expect("a folder");
    for shard in [
        "../model.safetensors",
        "/etc/passwd",
        "a/b",
        "..",
        "https://a.b/c",
    ] {
        let index = json!({ "weight_map": { "w": shard } }).to_string();
        write(
            folder.path(),
            "model.safetensors.index.json",
            index.as_bytes(),
        );
        match Reader::open(folder.path()) {
            Err(Error::Format { source, .. }) => assert!(source.to_string().contains(shard)),
            Err(other) => panic!("{shard}: {other}"),
            Ok(_) => panic!("{shard} was opened"),
        }
    }
}
