//! Every command on files with extension frames (docs/formats/extensions.md).

use std::path::Path;

use tempfile::TempDir;
use zstn_tests::checkpoints::{fine_tuned, quantised, usual};
use zstn_tests::command::{json, text, zstn};

use crate::folder_with;

/// Runs `zstn`, which must succeed, and returns its standard output.
fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = zstn(folder, arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Creates a folder with `m.safetensors` and its packed file `m.zstn`.
fn packed() -> TempDir {
    let folder = folder_with("m.safetensors", &quantised());
    done(folder.path(), &["pack", "m.safetensors", "--extended"]);
    folder
}

/// Creates a folder with `base.safetensors`, `tuned.safetensors` and `tuned.z4dm`.
fn packed_delta() -> TempDir {
    let (base, tuned) = fine_tuned();
    let folder = folder_with("base.safetensors", &base);
    std::fs::write(folder.path().join("tuned.safetensors"), tuned).expect("written");
    let base = ["--base", "base.safetensors", "--extended"];
    done(
        folder.path(),
        &[&["pack", "tuned.safetensors"], &base[..]].concat(),
    );
    folder
}

fn version(folder: &TempDir, name: &str) -> u8 {
    std::fs::read(folder.path().join(name)).expect("a file")[4]
}

#[test]
fn every_verb_reads_an_extended_file() {
    let folder = packed();
    let at = folder.path();
    assert_eq!(version(&folder, "m.zstn"), 4);
    done(at, &["verify", "m.zstn", "--against", "m.safetensors"]);
    assert!(done(at, &["ls", "m.zstn", "--stats"]).contains("down"));
    for rows in ["0..3", "95..96"] {
        let get = |file| {
            let arguments = ["get", file, "up", "--rows", rows, "-o", "rows", "--force"];
            done(at, &arguments);
            std::fs::read(at.join("rows")).expect("rows")
        };
        assert!(get("m.zstn") == get("m.safetensors"), "{rows}");
    }
    done(at, &["unpack", "m.zstn", "-o", "back.safetensors"]);
    let back = std::fs::read(at.join("back.safetensors")).expect("a file");
    assert!(back == quantised());
    for (to, what) in [("m.zt", "ztensor"), ("m.copy.safetensors", "safetensors")] {
        let report: serde_json::Value =
            serde_json::from_str(&done(at, &["convert", "m.zstn", to, "--json"])).expect("JSON");
        assert_eq!(report["to"], what);
    }
    assert!(std::fs::read(at.join("m.copy.safetensors")).expect("a file") == quantised());
}

#[test]
fn info_says_what_a_reader_needs() {
    let folder = packed();
    let said = done(folder.path(), &["info", "m.zstn"]);
    assert!(
        said.contains("4: needs zstn 0.1 or later; z4ai cannot read it"),
        "{said}"
    );
    assert!(said.contains("2 tensors by lattice"), "{said}");
    let info = json(&zstn(folder.path(), &["info", "m.zstn", "--json"]));
    assert_eq!(info["version"], 4);
    assert_eq!(info["min_reader"], "zstn 0.1");
    let counts = serde_json::json!({"lattice": 2, "intervals": 0, "difference": 0});
    assert_eq!(info["extensions"], counts);
    done(
        folder.path(),
        &["pack", "m.safetensors", "-o", "plain.zstn"],
    );
    let smallest = ["pack", "m.safetensors", "-o", "smallest.zstn", "--extended"];
    done(
        folder.path(),
        &[&smallest[..], &["--effort", "max"]].concat(),
    );
    let said = done(folder.path(), &["info", "smallest.zstn"]);
    assert!(said.contains("1 tensor by intervals"), "{said}");
    let info = json(&zstn(folder.path(), &["info", "plain.zstn", "--json"]));
    assert_eq!(info["version"], 3);
    assert_eq!(info["extensions"]["lattice"], 0);
    let info = json(&zstn(folder.path(), &["info", "m.safetensors", "--json"]));
    assert!(info["version"].is_null() && info["extensions"].is_null());
    // References to other bytes of the base are not frames.
    let paired = zstn_tests::cases::read("released/0.1.0", "paired-delta.z4dm");
    std::fs::write(folder.path().join("paired.z4dm"), paired).expect("written");
    let said = done(folder.path(), &["info", "paired.z4dm"]);
    assert!(said.contains("needs zstn 0.1 or later"), "{said}");
    assert!(!said.contains("extensions"), "{said}");
}

#[test]
fn convert_writes_a_file_that_z4ai_reads() {
    let folder = packed();
    done(folder.path(), &["convert", "m.zstn", "old.zstn"]);
    done(
        folder.path(),
        &["pack", "m.safetensors", "-o", "plain.zstn"],
    );
    let read = |name: &str| std::fs::read(folder.path().join(name)).expect("a file");
    assert!(read("old.zstn") == read("plain.zstn"));
    done(
        folder.path(),
        &["convert", "old.zstn", "new.zstn", "--extended"],
    );
    assert!(read("new.zstn") == read("m.zstn"));
    let refused = zstn(folder.path(), &["convert", "m.zstn", "m.zt", "--extended"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn standard_output_gets_the_same_bytes() {
    for original in [quantised(), usual()] {
        let folder = folder_with("m.safetensors", &original);
        done(folder.path(), &["pack", "m.safetensors", "--extended"]);
        let streamed = zstn(
            folder.path(),
            &["pack", "m.safetensors", "--extended", "-c"],
        );
        assert!(streamed.status.success());
        let file = std::fs::read(folder.path().join("m.zstn")).expect("a file");
        assert!(streamed.stdout == file);
    }
}

#[test]
fn without_a_gain_the_file_is_the_usual_one() {
    let folder = folder_with("m.safetensors", &usual());
    done(folder.path(), &["pack", "m.safetensors", "-o", "a.zstn"]);
    done(
        folder.path(),
        &["pack", "m.safetensors", "-o", "b.zstn", "--extended"],
    );
    let read = |name: &str| std::fs::read(folder.path().join(name)).expect("a file");
    assert!(read("a.zstn") == read("b.zstn"));
}

#[test]
fn every_verb_reads_an_extended_delta() {
    let folder = packed_delta();
    let at = folder.path();
    assert_eq!(version(&folder, "tuned.z4dm"), 2);
    let with_base =
        |arguments: &[&str]| done(at, &[arguments, &["--base", "base.safetensors"]].concat());
    with_base(&["verify", "tuned.z4dm", "--against", "tuned.safetensors"]);
    let said = with_base(&["info", "tuned.z4dm"]);
    assert!(said.contains("2: needs zstn 0.1 or later"), "{said}");
    assert!(
        said.contains("1 tensor by lattice, 1 tensor by difference"),
        "{said}"
    );
    with_base(&["unpack", "tuned.z4dm", "-o", "back.safetensors"]);
    let read = |name: &str| std::fs::read(at.join(name)).expect("a file");
    assert!(read("back.safetensors") == read("tuned.safetensors"));
    with_base(&["get", "tuned.z4dm", "up", "--rows", "3..5", "-o", "a"]);
    done(
        at,
        &[
            "get",
            "tuned.safetensors",
            "up",
            "--rows",
            "3..5",
            "-o",
            "b",
        ],
    );
    assert!(read("a") == read("b"));
    // A chain: the delta is the base of another delta.
    std::fs::copy(at.join("base.safetensors"), at.join("copy.safetensors")).expect("copied");
    let arguments = ["pack", "copy.safetensors", "-o", "back.z4dm", "--extended"];
    let bases = ["--base", "tuned.z4dm", "--base", "base.safetensors"];
    done(at, &[&arguments[..], &bases].concat());
    let arguments = ["unpack", "back.z4dm", "-o", "base.again"];
    done(at, &[&arguments[..], &bases].concat());
    assert!(read("base.again") == read("base.safetensors"));
    // Without `--extended`, the delta of the same files has a version that z4ai reads.
    let arguments = ["pack", "tuned.safetensors", "-o", "plain.z4dm"];
    with_base(&arguments);
    assert_eq!(version(&folder, "plain.z4dm"), 1);
}

#[test]
fn a_checkpoint_in_several_files_is_extended_file_by_file() {
    let folder = packed();
    let arguments = ["convert", "m.zstn", "s/model.zstn.index.json", "--extended"];
    std::fs::create_dir(folder.path().join("s")).expect("a folder");
    done(
        folder.path(),
        &[&arguments[..], &["--shard-size", "60K"]].concat(),
    );
    let info = json(&zstn(
        folder.path(),
        &["info", "s/model.zstn.index.json", "--json"],
    ));
    assert_eq!(info["version"], 4);
    assert_eq!(info["extensions"]["lattice"], 2);
    assert_eq!(info["files"].as_array().map(Vec::len), Some(3));
    assert_eq!(version(&folder, "s/model-00001-of-00003.zstn"), 3);
}

#[test]
fn rows_of_a_difference_say_what_they_take_of_both_files() {
    let folder = packed_delta();
    let at = folder.path();
    done(at, &["pack", "base.safetensors"]);
    let rows = ["get", "tuned.z4dm", "up", "--rows", "1..3", "--base"];
    // The tensor is too short to be divided into blocks.
    let said = done(at, &[&rows[..], &["base.zstn", "--summary"]].concat());
    assert!(said.contains("with the base's"), "{said}");
    let report = done(at, &[&rows[..], &["base.zstn", "--json"]].concat());
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let bytes = |name: &str| report[name].as_u64().expect("a number");
    assert!(bytes("fetched_bytes") > bytes("packed_bytes"), "{report}");
}
