//! compressed-tensors: files made by the real package, damaged files, models in folders
//! and in shards, and the writers of the sparse formats.

mod edges;

use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;
use serde_json::json;
use zstn::{Error, Reader};
use zstn_core::catalog::FileKind;
use zstn_core::container::foreign::compressed_tensors::{
    CheckpointEntry, DenseTensor, SparseWriter, TensorSpec, WeightFormat,
};
use zstn_core::dtype::Dtype;
use zstn_tests::cases::{Refusal, read, text};
use zstn_tests::foreign::{BAD, GOOD, Model, cases, safetensors};
use zstn_tests::{checkpoints, sha256};

#[test]
fn every_vector_decodes_to_the_truth_beside_it() {
    for case in cases(GOOD) {
        let model = Model::vector(GOOD, &case.name);
        let truth = safetensors(&read(GOOD, &format!("{}.dense.safetensors", case.name)));
        let mut names = BTreeSet::new();
        for (stored, bytes) in truth {
            let name = &stored.name;
            let dense = model
                .read(name)
                .unwrap_or_else(|error| panic!("{}: {error}", case.name));
            assert!(dense.bytes == bytes, "{}: {name} differs", case.name);
            let expected = &case.tensors[name];
            assert_eq!(dense.dtype.name(), expected.dtype, "{}: {name}", case.name);
            assert_eq!(dense.shape, expected.shape, "{}: {name}", case.name);
            assert_eq!(sha256(&dense.bytes), expected.sha256);
            names.insert(stored.name);
        }
        assert!(!model.weights().is_empty(), "{}", case.name);
        for (name, entry) in model.checkpoint().expect("a checkpoint").entries() {
            match entry {
                CheckpointEntry::Weight(weight) => {
                    assert!(names.contains(name), "{}: {name}", case.name);
                    let format = case.format.as_deref().expect("a format");
                    let own = weight.format().name();
                    assert!(format.contains(own) || format == "mixed-precision", "{own}");
                }
                CheckpointEntry::Stored(_) => {
                    // Stored entries are weights and the scales of activations.
                    assert!(
                        names.contains(name) || name.ends_with(".input_scale"),
                        "{name}"
                    );
                }
                other => panic!("{}: {name} is {other:?}", case.name),
            }
        }
    }
}

#[test]
fn every_bad_vector_is_refused_for_its_rule() {
    for entry in zstn_tests::cases::malformed(BAD) {
        let name = text(&entry["name"]);
        let refusal = Refusal::of(&entry).expect(&name);
        let model = Model::vector(BAD, &name);
        let modules = match entry["bad_tensor"].as_str() {
            Some(module) => vec![module.to_owned()],
            None => (0..2).map(|n| format!("model.layers.{n}.proj")).collect(),
        };
        for module in modules {
            let weight = format!("{module}.weight");
            let error = refusal.check(&name, model.read(&weight));
            assert_eq!(error.tensor_name(), Some(weight.as_str()));
        }
    }
}

#[test]
fn one_bad_tensor_is_no_obstacle_to_the_others() {
    let model = Model::vector(BAD, "sb_no_bitmask");
    let good = Model::vector(GOOD, "sb013_f32");
    let name = "layers.1.proj.weight";
    assert_eq!(model.read(name), good.read(name));
}

fn write_file(folder: &Path, name: &str, bytes: &[u8]) {
    std::fs::write(folder.join(name), bytes).expect("a file");
}

fn check(folder: &Path, vector: &str) {
    let reader = Reader::open(folder).expect("a model");
    assert_eq!(reader.model().kind(), FileKind::CompressedTensors);
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
        write_file(
            folder.path(),
            "config.json",
            &read(GOOD, &format!("{vector}.config.json")),
        );
        let model = read(GOOD, &format!("{vector}.safetensors"));
        write_file(folder.path(), "model.safetensors", &model);
        check(folder.path(), vector);
    }
}

#[test]
fn parts_of_a_weight_in_different_shards() {
    let vector = "pack013_w4_g32_asym_gidx";
    let folder = tempfile::tempdir().expect("a folder");
    write_file(
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
        write_file(folder.path(), &name, &checkpoints::safetensors(own));
    }
    let index = json!({ "metadata": {}, "weight_map": map }).to_string();
    write_file(
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
        write_file(
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

/// Writes these tensors and the matching configuration.
fn write(format: WeightFormat, dense: &[(TensorSpec, Vec<u8>)]) -> (Model, usize) {
    let mut writer = SparseWriter::new(format).expect("a sparse format");
    let mut tensors = Vec::new();
    let mut sparse = 0;
    for (stored, bytes) in dense {
        match writer
            .write(stored, bytes)
            .expect("tensors that fit each other")
        {
            Some(parts) => {
                sparse += 1;
                tensors.extend(parts);
            }
            None => tensors.push((stored.clone(), bytes.clone())),
        }
    }
    let config = format!(
        r#"{{"quantization_config": {}}}"#,
        writer.quantization_config()
    );
    let config = config.into_bytes();
    (Model { config, tensors }, sparse)
}

#[test]
fn the_bytes_are_those_of_the_package() {
    let mut compared = 0;
    for case in cases(GOOD) {
        let format = match case.name.split_once('_') {
            Some(("sb013", _)) => WeightFormat::SparseBitmask,
            Some(("s24", _)) => WeightFormat::Sparse24Bitmask,
            _ => continue,
        };
        let package = Model::vector(GOOD, &case.name);
        let dense = safetensors(&read(GOOD, &format!("{}.dense.safetensors", case.name)));
        let (own, sparse) = write(format, &dense);
        for (stored, bytes) in &own.tensors {
            if !dense.iter().any(|(dense, _)| dense.name == stored.name) {
                assert!(
                    package.tensors.contains(&(stored.clone(), bytes.clone())),
                    "{}: {stored:?}",
                    case.name
                );
            }
        }
        compared += sparse;
    }
    assert!(compared >= 5, "only {compared} tensors were worth it");
}

#[test]
fn what_is_not_worth_it_stays_dense() {
    let stored = |name: &str, dtype, shape: &[u64]| TensorSpec {
        name: name.into(),
        dtype,
        shape: shape.to_vec(),
    };
    let (dense, sparse) = ([1; 4096], [0; 4096]);
    for (format, stored, bytes, expected) in [
        (
            WeightFormat::SparseBitmask,
            stored("a.weight", Dtype::F16, &[8, 256]),
            sparse,
            1,
        ),
        (
            WeightFormat::SparseBitmask,
            stored("a.weight", Dtype::F16, &[8, 256]),
            dense,
            0,
        ),
        (
            WeightFormat::SparseBitmask,
            stored("a.bias", Dtype::F16, &[2048]),
            sparse,
            0,
        ),
        (
            WeightFormat::SparseBitmask,
            stored("a.weight.weight", Dtype::F16, &[2048]),
            sparse,
            0,
        ),
        (
            WeightFormat::SparseBitmask,
            stored("a.weight", Dtype::I64, &[512]),
            sparse,
            0,
        ),
        (
            WeightFormat::Sparse24Bitmask,
            stored("a.weight", Dtype::F16, &[8, 256]),
            sparse,
            1,
        ),
        (
            WeightFormat::Sparse24Bitmask,
            stored("a.weight", Dtype::F16, &[8, 256]),
            dense,
            0,
        ),
        (
            WeightFormat::Sparse24Bitmask,
            stored("a.weight", Dtype::F16, &[2, 4, 256]),
            sparse,
            0,
        ),
        (
            WeightFormat::Sparse24Bitmask,
            stored("a.weight", Dtype::F16, &[1024, 2]),
            sparse,
            0,
        ),
    ] {
        let (model, count) = write(format, &[(stored.clone(), bytes.to_vec())]);
        assert_eq!(count, expected, "{format:?} {stored:?}");
        assert_eq!(model.read(&stored.name).expect("a tensor").bytes, bytes);
    }
}

#[test]
fn the_configuration_says_what_was_written() {
    let stored = TensorSpec {
        name: "m.0.weight".into(),
        dtype: Dtype::I8,
        shape: vec![1, 4096],
    };
    let mut bytes = vec![0; 4096];
    bytes[..1024].fill(1);
    let (model, _) = write(WeightFormat::SparseBitmask, &[(stored, bytes)]);
    let config: serde_json::Value = serde_json::from_slice(&model.config).expect("JSON");
    let sparsity = &config["quantization_config"]["sparsity_config"];
    assert_eq!(sparsity["format"], "sparse-bitmask");
    assert_eq!(sparsity["global_sparsity"], 0.75);
    assert_eq!(sparsity["targets"], serde_json::json!(["m.0"]));
}

/// Generates a tensor of rank 1 to 3 with a share of zeros. Half of the patterns keep
/// at most two of every four elements.
fn tensors() -> impl Strategy<Value = (TensorSpec, Vec<u8>)> {
    let dtypes = [
        Dtype::F32,
        Dtype::F16,
        Dtype::Bf16,
        Dtype::I8,
        Dtype::F8E4M3,
    ];
    let shape = prop_oneof![
        prop::collection::vec(0u64..40, 1..4),
        (0u64..40, 0u64..40).prop_map(|(rows, fours)| vec![rows, fours * 4]),
    ];
    (
        shape,
        prop::sample::select(dtypes.to_vec()),
        0u8..=100,
        any::<u64>(),
        any::<bool>(),
    )
        .prop_map(|(shape, dtype, density, seed, fours)| {
            let mut random = zstn_tests::rng::Rng(seed);
            let width = dtype.len_bytes().expect("whole bytes");
            let count = usize::try_from(shape.iter().product::<u64>()).expect("small");
            let mut bytes = Vec::new();
            for place in 0..count {
                let keep =
                    random.next_u64() % 100 < u64::from(density) && (!fours || place % 4 < 2);
                let mut element = random.bytes(width);
                match random.next_u64() % 8 {
                    _ if !keep => element.fill(0),
                    // Negative zero, or the most negative integer.
                    0 => {
                        element.fill(0);
                        element[width - 1] = 0x80;
                    }
                    _ => {}
                }
                bytes.extend(element);
            }
            let name = "m.weight".into();
            (TensorSpec { name, dtype, shape }, bytes)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_bit_comes_back((stored, bytes) in tensors(), fours: bool) {
        let format = if fours { WeightFormat::Sparse24Bitmask } else { WeightFormat::SparseBitmask };
        let (model, sparse) = write(format, &[(stored.clone(), bytes.clone())]);
        let expected = DenseTensor { dtype: stored.dtype, shape: stored.shape.clone(), bytes };
        prop_assert_eq!(model.read("m.weight").expect("a tensor"), expected);
        let len: usize = model.tensors.iter().map(|(_, bytes)| bytes.len()).sum();
        prop_assert!(sparse == 0 || (len as u64) < stored.len_bytes().expect("a length"));
    }
}
