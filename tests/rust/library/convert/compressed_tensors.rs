//! Conversions to and from compressed-tensors folders.

use zstn::convert::{Detail, Target};
use zstn::{Reader, Tensor};
use zstn_core::container::foreign::compressed_tensors::WeightFormat;
use zstn_core::dtype::Dtype;
use zstn_tests::cases;

use super::{folder, listing, read, run, target, tensor};

fn pruned(name: &str, dtype: Dtype, shape: &[u64], keeps: impl Fn(usize) -> bool) -> Tensor {
    let mut tensor = tensor(name, dtype, shape);
    let width = dtype.len_bytes().expect("whole bytes");
    for (number, element) in tensor.bytes.chunks_mut(width).enumerate() {
        if !keeps(number) {
            element.fill(0);
        }
    }
    tensor
}

/// Returns a tensor with 2:4 sparsity, one with few values, and some that are not
/// sparse.
fn model() -> Vec<Tensor> {
    vec![
        tensor("dense.weight", Dtype::Bf16, &[40, 48]),
        pruned("few.weight", Dtype::F32, &[40, 48], |n| n % 11 == 3),
        pruned("half.weight", Dtype::Bf16, &[32, 64], |n| n % 4 < 2),
        tensor("half.bias", Dtype::Bf16, &[32]),
        tensor("scalar", Dtype::F32, &[]),
    ]
}

#[test]
fn weights_come_back_from_both_formats() {
    let mut truth = model();
    let folder = folder(&truth, &[("format", "pt")]);
    truth.sort_by(|a, b| a.name.cmp(&b.name));
    for (format, output, sparse) in [
        (
            WeightFormat::SparseBitmask,
            "bitmask",
            vec!["few.weight", "half.weight"],
        ),
        (
            WeightFormat::Sparse24Bitmask,
            "fours/",
            vec!["few.weight", "half.weight"],
        ),
    ] {
        let target = Target::CompressedTensors { format };
        let report = run(folder.path(), "in.safetensors", output, &target).expect("converted");
        assert_eq!(report.detail, Detail::Sparse(sparse.len()), "{output}");
        let path = folder.path().join(output);
        let (mut found, _) = read(&path);
        found.sort_by(|a, b| a.name.cmp(&b.name));
        assert!(found == truth, "{output}");
        let reader = Reader::open(&path).expect("a folder");
        for name in sparse {
            let mut tensors = reader.tensors().iter();
            let tensor = tensors.find(|tensor| tensor.name == name).expect("there");
            assert!(tensor.weight().is_some(), "{name}");
        }
        let files = listing(&path);
        let len: u64 = files
            .iter()
            .map(|file| path.join(file).metadata().expect("a file").len())
            .sum();
        assert_eq!(report.written_bytes, len);
        assert_eq!(report.files, std::slice::from_ref(&path));
        // More than 2000 bytes of parts are divided into shards.
        assert!(files.contains(&"model.safetensors.index.json".into()));
        assert!(!files.contains(&"model.safetensors".into()));
    }
    let names = listing(folder.path());
    assert_eq!(names, ["bitmask", "fours", "in.safetensors"]);
}

#[test]
fn a_small_model_is_one_file_and_the_configuration_names_the_format() {
    let truth = vec![pruned("few.weight", Dtype::F32, &[16, 48], |n| n % 11 == 3)];
    let folder = folder(&truth, &[]);
    std::fs::create_dir(folder.path().join("empty")).expect("a folder");
    let target = Target::CompressedTensors {
        format: WeightFormat::SparseBitmask,
    };
    run(folder.path(), "in.safetensors", "empty", &target).expect("converted");
    let path = folder.path().join("empty");
    assert_eq!(listing(&path), ["config.json", "model.safetensors"]);
    let config = std::fs::read(path.join("config.json")).expect("a file");
    let config: serde_json::Value = serde_json::from_slice(&config).expect("JSON");
    let sparsity = &config["quantization_config"]["sparsity_config"];
    assert_eq!(sparsity["format"], "sparse-bitmask");
    assert_eq!(sparsity["targets"], serde_json::json!(["few"]));
    assert!(read(&path).0 == truth);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        std::fs::create_dir(folder.path().join("usual")).expect("a folder");
        assert_eq!(mode(&path), mode(&folder.path().join("usual")));
    }
}

/// Creates a folder with this vector as `in/`.
fn quantised(vectors: &str, name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("in");
    std::fs::create_dir(&path).expect("a folder");
    for (vector, file) in [
        (format!("{name}.config.json"), "config.json"),
        (format!("{name}.safetensors"), "model.safetensors"),
    ] {
        std::fs::write(path.join(file), cases::read(vectors, &vector)).expect("written");
    }
    folder
}

#[test]
fn quantised_weights_become_what_they_stand_for() {
    let folder = quantised("compressed-tensors", "mixed_int8_w4");
    let at = |name: &str| folder.path().join(name);
    let text = std::fs::read(at("in/config.json")).expect("a file");
    let mut config: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    config["zz"] = serde_json::json!({"kept": 1e-5});
    std::fs::write(at("in/config.json"), config.to_string()).expect("written");
    let dense = cases::read("compressed-tensors", "mixed_int8_w4.dense.safetensors");
    std::fs::write(at("dense.safetensors"), dense).expect("written");
    let sorted = |path: std::path::PathBuf| {
        let mut tensors = read(&path).0;
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        tensors
    };
    let truth = sorted(at("dense.safetensors"));
    for output in ["out.safetensors", "out.zstn", "out.zt", "out/"] {
        let report = run(folder.path(), "in", output, &target(output)).expect("converted");
        assert!(report.is_decoded && !report.is_rotated, "{output}");
        assert!(sorted(at(output)) == truth, "{output}");
    }
    let text = std::fs::read(at("out/config.json")).expect("a file");
    let written: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(written["zz"], config["zz"]);
    let settings = &written["quantization_config"];
    assert!(settings["config_groups"].is_null() && settings["sparsity_config"].is_object());
}

#[test]
fn a_weight_that_cannot_be_had_is_not_left_out() {
    let folder = quantised("compressed-tensors-bad", "int8_scale_rows");
    for output in ["out.safetensors", "out.zstn", "out.zt", "out.gauss", "out/"] {
        let error = run(folder.path(), "in", output, &target(output)).unwrap_err();
        assert!(
            error.refusal().is_some_and(|r| r.tensor_name().is_some()),
            "{error}"
        );
        assert_eq!(listing(folder.path()), ["in"], "{output}");
    }
}
