//! Deltas that restore a file that is not safetensors, with a base of another format.

use zstn::{Job, PackOptions, Reader, Storage, VerifyOptions};
use zstn_core::Rule;
use zstn_tests::rng::Rng;
use zstn_tests::{checkpoint, repository};

use super::original_deltas::{Files, Weights, gguf_pair, pytorch_pair};
use super::original_files::{assert_same_tensors, rule_of};
use super::originals::f32s;

/// Writes the weights of [`gguf_pair`] as safetensors files under other names: as
/// `model.safetensors`, as `parts` with two files and an index, and both packed.
fn write_safetensors(files: &Files) {
    let Weights { halves, norm, .. } = Weights::new();
    let same = Rng(22).bf16_weights(128 * 256);
    let unrelated = Rng(27).bf16_weights(128 * 256);
    let tensors: [(&str, &str, &[u8]); 4] = [
        ("encoder.0", "BF16", &unrelated),
        ("encoder.1", "BF16", &same),
        ("encoder.2", "BF16", &halves),
        ("encoder.norm", "F32", &norm),
    ];
    let write = |name: &str, bytes: &[u8]| std::fs::write(files.at(name), bytes).expect("written");
    write("model.safetensors", &checkpoint(&tensors));
    std::fs::create_dir(files.at("parts")).expect("created");
    let shards = ["model-00001-of-00002", "model-00002-of-00002"];
    for (shard, tensors) in shards.iter().zip([&tensors[2..], &tensors[..2]]) {
        write(&format!("parts/{shard}.safetensors"), &checkpoint(tensors));
    }
    let index = format!(
        r#"{{"weight_map":{{"encoder.0":"{second}","encoder.1":"{second}","encoder.2":"{first}","encoder.norm":"{first}"}}}}"#,
        first = format_args!("{}.safetensors", shards[0]),
        second = format_args!("{}.safetensors", shards[1]),
    );
    write("parts/model.safetensors.index.json", index.as_bytes());
    files.pack("model.safetensors", "model.zstn", &PackOptions::default());
    files.pack("parts", "parts-zstn", &PackOptions::default());
}

#[test]
fn the_base_may_have_another_format_and_other_names() {
    let pair = gguf_pair([0, 0]);
    let files = Files::new(&pair);
    write_safetensors(&files);
    let plain = Reader::open(files.at(files.new)).expect("opened");
    for bases in [
        ["model.safetensors", "model.zstn"],
        ["parts", "parts-zstn"],
        [
            "parts/model.safetensors.index.json",
            "parts-zstn/model.zstn.index.json",
        ],
    ] {
        let mut deltas = Vec::new();
        for base in bases {
            let report = files.pack_delta(base, false);
            // `same` is a copy and `halves` is tuned. `norm` is so short that a delta is no
            // shorter, and the others are not in the base.
            let Storage::Delta {
                copied, differing, ..
            } = report.files[0].storage
            else {
                panic!("{:?}", report.files[0].storage);
            };
            assert_eq!((copied, differing), (1, 1), "{base}");
            deltas.push(files.read("new.z4dm"));
        }
        assert!(deltas[0] == deltas[1], "{bases:?}");
        for base in bases {
            let restored = files.unpack("new.z4dm", &[base]).expect(base);
            assert!(restored == pair.new.1, "{base}");
            let verified = VerifyOptions::default().base(files.at(base));
            let verified = verified.original(files.at(files.new));
            let verified = zstn::verify(&Job::new(), files.at("new.z4dm"), &verified);
            assert!(verified.expect(base).identical, "{base}");
            let reader = files.open("new.z4dm", &[base]).expect(base);
            assert_same_tensors(base, &reader, &plain);
        }
    }
    let whole = files.pack(files.new, "whole.zstn", &PackOptions::default());
    let saved = whole.packed_bytes() - files.read("new.z4dm").len() as u64;
    assert!(saved > 80_000, "{saved}");
    // A file of the same lengths with other bytes, and the same tensors in other files.
    let mut other = files.read("model.safetensors");
    let middle = other.len() / 2;
    other[middle] ^= 1;
    std::fs::write(files.at("other.safetensors"), other).expect("written");
    files.pack_delta("model.zstn", false);
    for base in ["other.safetensors", "parts"] {
        let error = files.unpack("new.z4dm", &[base]).expect_err(base);
        assert_eq!(rule_of(&error), Some(Rule::DeltaReference), "{error}");
        let read = files.open("new.z4dm", &[base]);
        let read = read.and_then(|reader| reader.read("same").map(drop));
        let error = read.expect_err(base);
        assert_eq!(rule_of(&error), Some(Rule::DeltaReference), "{error}");
    }
}

#[test]
fn unrelated_tensors_of_another_format_are_no_base() {
    let pair = pytorch_pair();
    let files = Files::new(&pair);
    let mut rng = Rng(28);
    let (weight, bias) = (f32s(&mut rng, 30_000), f32s(&mut rng, 2000));
    let base = checkpoint(&[("a", "F32", &weight), ("b", "F32", &bias)]);
    std::fs::write(files.at("model.safetensors"), base).expect("written");
    std::fs::write(files.at("notes.txt"), "some notes").expect("written");
    let whole = files.pack(files.new, "whole.zstn", &PackOptions::default());
    let report = files.pack_delta("model.safetensors", true);
    let storage = &report.files[0].storage;
    let none = matches!(
        storage,
        Storage::Delta {
            copied: 0,
            differing: 0,
            ..
        }
    );
    assert!(none, "{storage:?}");
    assert!(report.packed_bytes() < whole.packed_bytes() + 1000);
    let options = PackOptions::default().base(files.at("notes.txt"));
    let packed = zstn::pack(
        &Job::new(),
        files.at(files.new),
        files.at("x.z4dm"),
        &options,
    );
    let error = packed.expect_err("notes");
    assert!(error.to_string().contains("notes.txt"), "{error}");
    assert!(!files.at("x.z4dm").exists());
}

#[test]
fn a_packed_base_states_its_format_whatever_its_name_is() {
    let files = Files::new(&gguf_pair([0, 0]));
    // Neither format has a magic number.
    for (folder, file) in [("msgpack", "params.msgpack"), ("onnx", "raw-types.onnx")] {
        let vector = repository().join("tests/vectors").join(folder).join(file);
        std::fs::copy(vector, files.at(file)).expect("copied");
        files.pack(file, "base.zstn", &PackOptions::default());
        files.pack_delta("base.zstn", false);
        let restored = files.unpack("new.z4dm", &["base.zstn"]).expect(file);
        assert!(restored == std::fs::read(files.at(files.new)).expect("a file"));
    }
}
