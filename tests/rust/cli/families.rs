//! Choosing a base from a family: `zstn sketch` and `zstn pack --base auto`.

use std::path::{Path, PathBuf};
#[cfg(target_os = "linux")]
use std::process::Command;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;
use zstn_tests::checkpoint;
#[cfg(target_os = "linux")]
use zstn_tests::command::program;
use zstn_tests::command::{json, text};
use zstn_tests::rng::Rng;
#[cfg(target_os = "linux")]
use zstn_tests::unreadable;

use super::run;

/// Runs a command, which must succeed, and returns its messages.
pub(super) fn say(folder: &Path, line: &str) -> String {
    let out = run(folder, line);
    assert!(out.status.success(), "{line}: {}", text(&out.stderr));
    text(&out.stderr)
}

/// Creates a folder with a base and an unrelated checkpoint in `models`, a fine-tune of
/// the base, and another unrelated checkpoint outside of `models`.
pub(super) fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("models")).unwrap();
    let base = Rng(1).bf16_weights(200_000);
    let mut tuned = base.clone();
    let mut rng = Rng(4);
    for byte in &mut tuned {
        *byte ^= u8::from(rng.unit() < 0.02);
    }
    let other = Rng(2).bf16_weights(200_000);
    let alone = Rng(3).bf16_weights(200_000);
    for (name, weights) in [
        ("models/base", &base),
        ("models/other", &other),
        ("tuned", &tuned),
        ("alone", &alone),
    ] {
        let file = checkpoint(&[("w", "BF16", weights), ("x", "U8", &[1; 99])]);
        std::fs::write(folder.path().join(format!("{name}.safetensors")), file).unwrap();
    }
    folder
}

/// Returns the path of a family member as messages show it, with the separator of the
/// operating system.
fn member(name: &str) -> PathBuf {
    Path::new("models").join(name)
}

pub(super) const AUTO: &str = "--base auto --family models";

#[test]
fn a_base_is_found_and_said_before_packing() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let said = say(folder.path(), &format!("pack tuned.safetensors {AUTO}"));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    let expected = format!(
        " of 400 kB against {}; without a base about 26",
        member("base.safetensors").display()
    );
    assert!(
        lines[0].starts_with("expects ") && lines[0].contains(&expected),
        "{said}"
    );
    assert!(
        lines[1].starts_with("tuned.safetensors → tuned.z4dm: 400 kB → "),
        "{said}"
    );
    say(
        folder.path(),
        "unpack tuned.z4dm --base models/base.safetensors -o back",
    );
    assert!(std::fs::read(at("back")).unwrap() == std::fs::read(at("tuned.safetensors")).unwrap());
    let said = say(folder.path(), &format!("pack alone.safetensors {AUTO}"));
    assert!(
        said.contains("without a base: none of 2 checkpoints saves 10 %"),
        "{said}"
    );
    assert!(at("alone.zstn").exists() && !at("alone.z4dm").exists());
    say(
        folder.path(),
        "verify alone.zstn --against alone.safetensors",
    );
    let quiet = say(folder.path(), &format!("pack tuned.safetensors {AUTO} -fq"));
    assert_eq!(quiet, "");
    // No file was added to the family.
    assert_eq!(std::fs::read_dir(at("models")).unwrap().count(), 2);
    say(
        folder.path(),
        &format!("pack tuned.safetensors {AUTO} -fq --save-sketches"),
    );
    assert!(at("models/base.sketch").exists() && at("models/other.sketch").exists());
}

/// One member is not a model, and another has an unreadable page.
#[cfg(target_os = "linux")]
#[test]
fn members_that_cannot_be_read_are_left_out_and_named() {
    let folder = folder();
    let models = folder.path().join("models");
    std::fs::write(
        models.join("text.safetensors"),
        "version https://git-lfs.github.com/spec/v1\n",
    )
    .unwrap();
    let other = models.join("other.safetensors");
    let mut pack = Command::new(program());
    pack.args(["pack", "tuned.safetensors", "--base", "auto"])
        .args(["--family", "models", "--json"])
        .current_dir(folder.path());
    unreadable::set(&mut pack, &other, 0);
    let report = json(&pack.output().unwrap());
    assert_eq!(
        report["bases"],
        serde_json::json!([member("base.safetensors")])
    );
    let left_out = report["family"]["left_out"].as_array().unwrap();
    let names: Vec<_> = left_out.iter().map(|left| &left["name"]).collect();
    assert_eq!(names, ["other.safetensors", "text.safetensors"], "{report}");
}

#[test]
fn reports_have_what_was_expected() {
    let folder = folder();
    std::fs::write(folder.path().join("models/bad.zstn"), "ZSTN").unwrap();
    let report = json(&run(
        folder.path(),
        &format!("pack tuned.safetensors {AUTO} --json"),
    ));
    assert_eq!(
        report["bases"],
        serde_json::json!([member("base.safetensors")])
    );
    assert_eq!(report["output"], "tuned.z4dm");
    let family = &report["family"];
    assert_eq!(
        (&family["location"], &family["candidates"]),
        (&"models".into(), &2.into())
    );
    assert_eq!(family["left_out"][0]["name"], "bad.zstn");
    let [packed, expected, plain] = [
        &report["packed_bytes"],
        &family["expected_bytes"],
        &family["expected_plain_bytes"],
    ]
    .map(|value| value.as_u64().unwrap());
    assert!(
        packed.abs_diff(expected) < packed / 4 && expected < plain / 2,
        "{report}"
    );
    let report = json(&run(folder.path(), "pack alone.safetensors --json"));
    assert!(report["family"].is_null());
    let report = json(
        &run(
            folder.path(),
            "sketch tuned.safetensors models/base.safetensors -o s --json",
        )
        .first(),
    );
    assert_eq!(
        (&report["tensors"], &report["digested_tensors"]),
        (&2.into(), &2.into())
    );
}

/// Access to the first of the JSON objects that a command prints for several inputs.
trait First {
    fn first(self) -> Self;
}

impl First for Output {
    fn first(mut self) -> Self {
        let end = self.stdout.iter().position(|byte| *byte == b'\n');
        self.stdout.truncate(end.unwrap_or(self.stdout.len()));
        self
    }
}

#[test]
fn sketches_are_named_after_the_checkpoint() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let said = say(folder.path(), "sketch models/base.safetensors");
    assert!(
        said.contains("models/base.sketch: 2 tensors of 400 kB, 2 with digests"),
        "{said}"
    );
    say(folder.path(), "pack models/base.safetensors");
    say(folder.path(), "sketch models/base.zstn -o again.sketch");
    let read = |name: &str| std::fs::read(at(name)).unwrap();
    assert!(read("models/base.sketch") == read("again.sketch"));
    let out = run(folder.path(), "sketch models/base.zstn");
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    std::fs::create_dir(at("one")).unwrap();
    std::fs::copy(at("alone.safetensors"), at("one/model.safetensors")).unwrap();
    say(folder.path(), "sketch one");
    say(folder.path(), "sketch alone.safetensors");
    assert!(read("one.sketch") == read("alone.sketch"));
    assert!(run(folder.path(), "sketch one -o -").stdout == read("one.sketch"));
}

#[test]
fn info_says_what_a_chain_costs() {
    let folder = folder();
    say(
        folder.path(),
        "pack tuned.safetensors --base models/base.safetensors",
    );
    say(
        folder.path(),
        "pack alone.safetensors --base tuned.z4dm --base models/base.safetensors",
    );
    let len = |name: &str| folder.path().join(name).metadata().unwrap().len();
    let info = |line: &str| text(&run(folder.path(), line).stdout);
    let shown = info("info tuned.z4dm");
    assert!(shown.contains("at least 2 checkpoints"), "{shown}");
    let line = "info alone.z4dm --base tuned.z4dm --base models/base.safetensors";
    let shown = info(line);
    assert!(
        shown.contains("3 checkpoints") && shown.contains("are read to restore it"),
        "{shown}"
    );
    let report = json(&run(folder.path(), &format!("{line} --json")));
    let all = len("alone.z4dm") + len("tuned.z4dm") + len("models/base.safetensors");
    assert_eq!(
        (&report["chain_checkpoints"], &report["chain_bytes"]),
        (&3.into(), &all.into())
    );
    assert_eq!(report["chain_complete"], true);
    let links = report["chain"].as_array().unwrap();
    let names = ["alone.z4dm", "tuned.z4dm", "models/base.safetensors"];
    for (link, name) in links.iter().zip(names) {
        let found = (&link["input"], &link["packed_bytes"]);
        assert_eq!(found, (&name.into(), &len(name).into()));
        assert_eq!(link["original_bytes"], len("alone.safetensors"));
        assert!(shown.contains(&format!(" of {name}\n")), "{shown}");
    }
    assert_eq!(links.len(), 3);
    assert_eq!(links[2]["kind"], "safetensors");
    let report = json(&run(folder.path(), "info tuned.z4dm --json"));
    assert_eq!(
        (&report["chain_checkpoints"], &report["chain_complete"]),
        (&1.into(), &false.into())
    );
    assert!(!info("info tuned.safetensors").contains("chain"));
    let report = json(&run(folder.path(), "info tuned.safetensors --json"));
    assert!(report["chain"].is_null() && report["chain_bytes"].is_null());
}

#[test]
fn the_sources_of_a_merge_belong_to_its_chain() {
    let folder = folder();
    let names = ["models/base.safetensors", "other.z4dm", "alone.safetensors"];
    say(
        folder.path(),
        "pack models/other.safetensors -o other.z4dm --base alone.safetensors",
    );
    let bases = format!(
        "--base {} --base {} --base {}",
        names[0], names[1], names[2]
    );
    say(
        folder.path(),
        &format!("pack tuned.safetensors -o merged.z4dm {bases}"),
    );
    let report = json(&run(
        folder.path(),
        &format!("info merged.z4dm {bases} --json"),
    ));
    let links = report["chain"].as_array().unwrap();
    let inputs: Vec<_> = links
        .iter()
        .map(|link| link["input"].as_str().unwrap())
        .collect();
    assert_eq!(inputs, [&["merged.z4dm"], &names[..]].concat());
    let lens = inputs
        .iter()
        .map(|name| folder.path().join(name).metadata().unwrap().len());
    assert_eq!(report["chain_bytes"], lens.sum::<u64>());
    assert_eq!(report["chain_complete"], true);
    say(
        folder.path(),
        &format!("unpack merged.z4dm -o back.safetensors {bases}"),
    );
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    assert!(read("back.safetensors") == read("tuned.safetensors"));
    let tensor = run(folder.path(), &format!("get merged.z4dm x {bases} -o -"));
    assert!(tensor.stdout == [1; 99]);
}

/// `zstn.training` writes such folders (docs/training.md).
#[test]
fn info_finds_the_bases_of_packed_checkpoints() {
    let folder = folder();
    let packed = folder.path().join("packed");
    let describe = |checkpoint: &str, is_file: bool, file: Value| {
        let description = serde_json::json!({
            "format": "zstn-checkpoint-1", "is_file": is_file, "files": [file],
        });
        let path = packed.join(checkpoint).join("zstn-checkpoint.json");
        std::fs::write(path, description.to_string()).unwrap();
    };
    let file = |path: &str, stored: &str, base: Option<&str>, base_path: Option<&str>| {
        serde_json::json!({
            "path": path, "stored": stored, "base": base, "base_path": base_path,
        })
    };
    let base = "packed/1/deep/w.zstn";
    for (checkpoint, line) in [
        ("1/deep", format!("pack models/base.safetensors -o {base}")),
        (
            "2/deep",
            format!("pack tuned.safetensors -o packed/2/deep/w.z4dm --base {base}"),
        ),
    ] {
        std::fs::create_dir_all(packed.join(checkpoint)).unwrap();
        say(folder.path(), &line);
    }
    let chain = || {
        let report = json(&run(folder.path(), "info packed/2/deep/w.z4dm --json"));
        let complete = report["chain_complete"].as_bool().unwrap();
        (complete, report["chain_checkpoints"].as_u64().unwrap())
    };
    assert_eq!(chain(), (false, 1));
    describe("1", false, file("deep/w", "deep/w.zstn", None, None));
    describe("2", false, file("deep/w", "deep/w.z4dm", Some("1"), None));
    assert_eq!(chain(), (true, 2));
    let shown = text(&run(folder.path(), "info packed/2/deep/w.z4dm").stdout);
    assert!(shown.contains("2 checkpoints of at most 5"), "{shown}");
    // The base is another file of a checkpoint, or the only one.
    describe(
        "2",
        false,
        file("v", "deep/w.z4dm", Some("1"), Some("deep/w")),
    );
    assert_eq!(chain(), (true, 2));
    describe("1", true, file("a.ckpt", "deep/w.zstn", None, None));
    describe("2", true, file("b.ckpt", "deep/w.z4dm", Some("1"), None));
    assert_eq!(chain(), (true, 2));
    // No base is opened outside of the store, and none if the description is wrong.
    for (base, stored) in [
        ("../packed/1", "deep/w.zstn"),
        ("1", "../1/deep/w.zstn"),
        ("1", "missing"),
        ("2", "deep/w.z4dm"),
    ] {
        describe("1", true, file("a.ckpt", stored, None, None));
        describe("2", true, file("b.ckpt", "deep/w.z4dm", Some(base), None));
        assert_eq!(chain(), (false, 1), "{base} {stored}");
    }
    // Another model is not the base.
    describe("1", true, file("a.ckpt", "deep/w.zstn", None, None));
    describe("2", true, file("b.ckpt", "deep/w.z4dm", Some("1"), None));
    let wrong = checkpoint(&[("v", "U8", &[1; 99])]);
    std::fs::write(packed.join("1/deep/w.zstn"), wrong).unwrap();
    let out = run(folder.path(), "info packed/2/deep/w.z4dm");
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
}

#[test]
fn wrong_usage_and_wrong_files_have_their_status() {
    let folder = folder();
    std::fs::write(folder.path().join("models/base.sketch"), "no sketch").unwrap();
    let long = "--base a --base b --base c --base d --base e";
    for (line, status, sentence) in [
        ("pack tuned.safetensors --base auto -o x", 2, "--family"),
        (
            "pack tuned.safetensors --family models -o x",
            2,
            "--base auto",
        ),
        (
            "pack tuned.safetensors --save-sketches -o x",
            2,
            "--base auto",
        ),
        (
            "pack tuned.safetensors --base auto --family none -o x",
            3,
            "none",
        ),
        (
            "pack - --base auto --family models -o x",
            2,
            "read only once",
        ),
        (
            "pack models/base.sketch --base auto --family models -o x",
            1,
            "base.sketch",
        ),
        (
            "pack tuned.safetensors --base auto --base models/base.safetensors --family models -o x",
            2,
            "without another --base",
        ),
        ("unpack tuned.z4dm --base auto -o x", 2, "only `zstn pack`"),
        ("ls tuned.z4dm --base auto", 2, "./auto"),
        ("sketch models/base.sketch -o x", 1, "base.sketch"),
        ("sketch none.safetensors -o x", 3, "none.safetensors"),
        (
            &format!("pack tuned.safetensors -o x {long}"),
            2,
            "5 bases is over the limit of 4",
        ),
        (
            &format!("unpack tuned.z4dm -o x {long}"),
            2,
            "unpack d with the bases",
        ),
    ] {
        let line = line.to_owned();
        if line.starts_with("unpack") {
            say(
                folder.path(),
                "pack tuned.safetensors --base models/base.safetensors -f",
            );
        }
        let out = run(folder.path(), &line);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(status), "{line}: {said}");
        assert!(said.contains(sentence), "{line}: {said}");
        assert!(!folder.path().join("x").exists(), "{line}");
    }
    // A damaged sketch is reported, and the command continues with the others.
    let said = say(
        folder.path(),
        &format!("pack tuned.safetensors {AUTO} -o x"),
    );
    let note = format!(
        "note: base.safetensors was left out: {}",
        member("base.sketch").display()
    );
    assert!(said.contains(&note), "{said}");
}
