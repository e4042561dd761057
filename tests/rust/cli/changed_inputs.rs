//! Inputs that are truncated or changed while they are read: the result never mixes two
//! versions, and the process survives.

use std::fs;

use zstn_core::Rule;
use zstn_tests::command::{text, zstn};

use super::file_faults::scratch::{Scratch, TENSOR_BYTES, plain};

#[test]
fn reading_past_the_end_of_a_file_that_was_cut_is_an_error() {
    use zstn::source::{Local, Source};
    use zstn_tests::faults::files::Act;

    let scratch = Scratch::new();
    let file = Local::open(&scratch.at("m.safetensors")).unwrap();
    let last = file.len_bytes() - 1..file.len_bytes();
    assert!(file.read(last.clone()).is_ok());
    Act::Truncate.apply(&scratch.at("m.safetensors")).unwrap();
    let error = file.read(last).unwrap_err().to_string();
    assert!(error.contains("has changed since it was opened"), "{error}");
}

#[test]
fn a_file_that_was_cut_off_is_packed_only_when_asked_for() {
    let scratch = Scratch::new();
    let original = plain();
    for len in [
        original.len() - 1,
        original.len() / 2,
        original.len() - 2 * TENSOR_BYTES,
    ] {
        fs::write(scratch.at("cut.safetensors"), &original[..len]).unwrap();
        let folder = scratch.folder.path();
        let out = zstn(folder, &["pack", "cut.safetensors", "--json"]);
        assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
        let error: serde_json::Value = serde_json::from_slice(&out.stderr).unwrap();
        assert_eq!(error["error"]["rule"], Rule::SafetensorsTruncated.code());
        assert!(text(&out.stderr).contains("cut off"));
        assert!(!scratch.at("cut.zstn").exists());
        // The same for a shard in a folder.
        let model = scratch.at("model");
        fs::create_dir_all(&model).unwrap();
        fs::write(model.join("model.safetensors"), &original[..len]).unwrap();
        let out = zstn(folder, &["pack", "model"]);
        assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
        assert!(!scratch.at("model-zstn").exists());

        let out = zstn(folder, &["pack", "cut.safetensors", "--allow-truncated"]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        let out = zstn(folder, &["unpack", "cut.zstn", "-o", "back"]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        assert!(fs::read(scratch.at("back")).unwrap() == original[..len]);
        for name in ["cut.zstn", "back"] {
            fs::remove_file(scratch.at(name)).unwrap();
        }
    }
}
