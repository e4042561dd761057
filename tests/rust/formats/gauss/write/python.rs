//! Compares files with the ones written by the Python package.

use serde_json::Value;
use zstn_core::ErrorKind;
use zstn_core::container::foreign::gauss::RawReason;
use zstn_core::pure::Pure;
use zstn_tests::cases::{self, text};
use zstn_tests::checkpoints::Checkpoint;

use super::{check, options_of, write};

#[test]
fn files_are_those_of_python_but_where_python_clips_or_loses() {
    let manifest: Value =
        serde_json::from_slice(&cases::read("gauss", "manifest.json")).expect("JSON");
    let mut equal = 0;
    for vector in manifest["vectors"].as_array().expect("a list") {
        let name = text(&vector["name"]);
        if vector["options"]["writer"].is_string() {
            continue;
        }
        let original = cases::read("gauss", &format!("{name}.safetensors"));
        let checkpoint = Checkpoint::parse(&original);
        let sources = checkpoint.sources();
        let options = options_of(vector);
        if name == "k1_dropped" {
            let error = write(&Pure, &sources, &options).expect_err("no such mixture");
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            continue;
        }
        let (file, report) = write(&Pure, &sources, &options).expect(&name);
        let theirs = cases::read("gauss", &format!("{name}.gauss"));
        match name.as_str() {
            // zstn adds components for values that Python clips.
            "clipped" | "big_values" => {
                assert!(
                    report
                        .tensors
                        .iter()
                        .all(|t| t.raw.is_some() || t.shards[0].added > 0)
                );
            }
            // zstn restores integers exactly.
            "int_gmm" => {
                assert!(
                    report
                        .tensors
                        .iter()
                        .all(|t| t.raw == Some(RawReason::Integers))
                );
            }
            // zstn does not round doubles to single precision first.
            "mixed_dtypes" => {
                assert!(file.len().abs_diff(theirs.len()) * 100 < theirs.len());
            }
            _ => {
                assert!(file == theirs, "{name} is not Python's file");
                equal += 1;
            }
        }
        for source in &sources {
            if report.tensors.iter().any(|t| t.name == source.name) {
                check(source, &file, &report);
            } else {
                assert!(options.layers.is_some(), "{name} lost {}", source.name);
            }
        }
    }
    assert!(equal >= 30, "only {equal} files");
}
