//! The files that `zstn sketch` and `zstn pack --base auto` write, and files that they
//! must not change.

use std::path::Path;

use tempfile::TempDir;
use zstn_tests::command::{json, text};

use super::families::{AUTO, folder, say};
use super::run;

/// Runs a command, which must be refused as incorrect usage, and returns its messages.
fn refuse(folder: &Path, line: &str) -> String {
    let out = run(folder, line);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{line}: {said}");
    said
}

#[test]
fn a_sketch_does_not_replace_what_it_is_made_of() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    say(
        folder.path(),
        "pack tuned.safetensors --base models/base.safetensors",
    );
    std::fs::hard_link(at("models/base.safetensors"), at("linked")).unwrap();
    std::fs::create_dir(at("shards")).unwrap();
    std::fs::copy(at("alone.safetensors"), at("shards/m.safetensors")).unwrap();
    let index = "shards/m.safetensors.index.json";
    std::fs::write(
        at(index),
        r#"{"weight_map":{"w":"m.safetensors","x":"m.safetensors"}}"#,
    )
    .unwrap();
    let base = "--base models/base.safetensors";
    for (line, kept) in [
        (
            "sketch alone.safetensors -o alone.safetensors",
            "alone.safetensors",
        ),
        ("sketch models/base.safetensors -o linked", "linked"),
        (
            &format!("sketch tuned.z4dm {base} -o tuned.z4dm"),
            "tuned.z4dm",
        ),
        (
            &format!("sketch tuned.z4dm {base} -o models/base.safetensors"),
            "models/base.safetensors",
        ),
        (
            &format!("sketch {index} -o shards/m.safetensors"),
            "shards/m.safetensors",
        ),
        (&format!("sketch {index} -o {index}"), index),
    ] {
        let before = std::fs::read(at(kept)).unwrap();
        let said = refuse(folder.path(), &format!("{line} --force"));
        assert!(said.contains("is being read"), "{line}: {said}");
        assert!(std::fs::read(at(kept)).unwrap() == before, "{line}");
    }
}

/// Creates a folder with two nearly equal checkpoints, so that each could be the base
/// of the other.
fn circle() -> TempDir {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("circ")).unwrap();
    std::fs::rename(at("models/base.safetensors"), at("circ/a.safetensors")).unwrap();
    std::fs::rename(at("tuned.safetensors"), at("circ/b.safetensors")).unwrap();
    folder
}

#[test]
fn differences_never_need_each_other() {
    let folder = circle();
    let at = |name: &str| folder.path().join(name);
    let both = "pack circ/a.safetensors circ/b.safetensors --base auto --family circ";
    let said = say(folder.path(), both);
    assert!(said.contains("note: 1 other input left out"), "{said}");
    assert!(
        at("circ/a.zstn").exists() && at("circ/b.zstn").exists(),
        "{said}"
    );
    // If two commands pack the files, the second one sees the output of the first.
    let folder = circle();
    let at = |name: &str| folder.path().join(name);
    say(
        folder.path(),
        "pack circ/a.safetensors --base auto --family circ",
    );
    assert!(at("circ/a.z4dm").exists());
    let report = json(&run(
        folder.path(),
        "pack circ/b.safetensors --base auto --family circ --json",
    ));
    assert_eq!(report["bases"], serde_json::json!([]));
    let left_out = report["family"]["left_out"].to_string();
    assert!(
        left_out.contains("a.safetensors") && left_out.contains("in the same folder"),
        "{left_out}"
    );
}

#[test]
fn names_of_the_other_kind_are_pointed_out() {
    let folder = folder();
    let said = say(
        folder.path(),
        &format!("pack tuned.safetensors {AUTO} -o x.zstn"),
    );
    assert!(
        said.contains("note: x.zstn is a delta") && said.contains(".z4dm"),
        "{said}"
    );
    let said = say(
        folder.path(),
        &format!("pack alone.safetensors {AUTO} -o y.z4dm"),
    );
    assert!(
        said.contains("note: y.z4dm is packed without a base"),
        "{said}"
    );
    let said = say(folder.path(), &format!("pack alone.safetensors {AUTO}"));
    assert!(!said.contains("note"), "{said}");
}

#[test]
fn an_output_that_exists_is_refused_before_the_family_is_read() {
    let folder = folder();
    std::fs::write(folder.path().join("x"), "x").unwrap();
    let said = refuse(
        folder.path(),
        &format!("pack tuned.safetensors {AUTO} --save-sketches -o x"),
    );
    assert!(!said.contains("expects"), "{said}");
    let sketch = folder.path().join("models/base.sketch");
    assert!(!sketch.exists(), "{said}");
    // Both possible outputs exist, so the command is refused although it does not know
    // yet which of them it would write.
    say(folder.path(), "pack tuned.safetensors");
    say(folder.path(), &format!("pack tuned.safetensors {AUTO}"));
    let said = refuse(folder.path(), &format!("pack tuned.safetensors {AUTO}"));
    assert!(!said.contains("expects"), "{said}");
}

#[test]
fn the_help_of_packing_names_auto() {
    let folder = folder();
    let help = |verb: &str| text(&run(folder.path(), &format!("{verb} --help")).stdout);
    assert!(help("pack").contains("`auto` looks for"));
    assert!(!help("unpack").contains("`auto`"));
}

#[test]
fn extension_frames_are_not_in_the_size_without_a_base() {
    let folder = folder();
    let said = say(
        folder.path(),
        &format!("pack tuned.safetensors {AUTO} --extended"),
    );
    assert!(
        said.contains("without a base and extension frames about"),
        "{said}"
    );
}
