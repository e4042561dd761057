//! Several inputs, with and without given outputs.

use std::path::Path;
use std::process::Output;

use zstn_tests::checkpoint;
use zstn_tests::command::{json, text, zstn};

use super::run;

/// Creates `a.safetensors`, `b.safetensors`, and `model/` with a checkpoint.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("model")).unwrap();
    for (name, bytes) in [("a", b"first"), ("b", b"other"), ("model/model", b"third")] {
        let file = checkpoint(&[("w", "U8", bytes)]);
        std::fs::write(folder.path().join(format!("{name}.safetensors")), file).unwrap();
    }
    folder
}

fn succeed(folder: &Path, line: &str) -> Output {
    let out = run(folder, line);
    assert!(out.status.success(), "{line}: {}", text(&out.stderr));
    out
}

fn refuse(folder: &Path, line: &str, sentence: &str) {
    let out = run(folder, line);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{line}: {said}");
    assert!(said.contains(sentence), "{line} says: {said}");
}

#[test]
fn every_input_gets_an_output_of_its_own() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let read = |name: &str| std::fs::read(at(name)).unwrap();
    succeed(folder.path(), "pack a.safetensors b.safetensors model");
    succeed(folder.path(), "verify a.zstn b.zstn model-zstn -q");
    succeed(folder.path(), "unpack a.zstn b.zstn model-zstn -o back");
    assert!(read("back/a.safetensors") == read("a.safetensors"));
    assert!(read("back/b.safetensors") == read("b.safetensors"));
    assert!(read("back/model/model.safetensors") == read("model/model.safetensors"));
    // A single file is also written into a folder, under its own name.
    for (output, made) in [("back", "back/a.zstn"), ("new/er/", "new/er/a.zstn")] {
        succeed(folder.path(), &format!("pack a.safetensors -o {output}"));
        assert!(read(made) == read("a.zstn"));
    }
    let listed = text(&succeed(folder.path(), "ls a.zstn b.zstn").stdout);
    for part in ["a.zstn:\n", "b.zstn:\n"] {
        assert!(listed.contains(part), "{listed}");
    }
    let lines = text(&succeed(folder.path(), "info --json a.zstn b.zstn").stdout);
    let inputs: Vec<String> = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|info| info["input"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(inputs, ["a.zstn", "b.zstn"]);
}

#[test]
fn an_input_that_fails_does_not_keep_the_others_from_being_worked_on() {
    let folder = folder();
    let page = folder.path().join("page.safetensors");
    std::fs::write(page, "<html>Not found</html>").unwrap();
    let out = run(folder.path(), "pack missing page.safetensors b.safetensors");
    assert_eq!(out.status.code(), Some(3), "the worst of 3 and 1");
    let said = text(&out.stderr);
    for part in ["missing", "web page", "b.safetensors → b.zstn"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(folder.path().join("b.zstn").is_file());
    let out = run(folder.path(), "verify --json b.zstn missing b.zstn");
    assert_eq!(text(&out.stdout).lines().count(), 2);
    let error: serde_json::Value = serde_json::from_slice(&out.stderr).unwrap();
    assert_eq!(error["error"]["kind"], "io");
}

#[test]
fn outputs_that_would_meet_are_refused() {
    let folder = folder();
    let copy = folder.path().join("model/a.safetensors");
    std::fs::copy(folder.path().join("a.safetensors"), copy).unwrap();
    refuse(
        folder.path(),
        "pack a.safetensors model/a.safetensors -o out -f",
        &format!(
            "would be called {}",
            Path::new("out").join("a.zstn").display()
        ),
    );
    refuse(
        folder.path(),
        "pack a.safetensors b.safetensors -o -",
        "several results",
    );
    refuse(folder.path(), "pack a.safetensors -", "several results");
    refuse(
        folder.path(),
        "pack a.safetensors -c -o x",
        "cannot be used with",
    );
    assert!(!folder.path().join("out/a.zstn").exists());
}

#[test]
fn one_meaning_for_one_option() {
    let folder = folder();
    let folder = folder.path();
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let plain = read("a.safetensors");
    succeed(folder, "pack a.safetensors -T 1 --memory 64M -q");
    assert!(succeed(folder, "pack a.safetensors -c").stdout == read("a.zstn"));
    assert!(succeed(folder, "unpack a.zstn -c -T 1 --memory 1M").stdout == plain);
    assert!(succeed(folder, "convert a.zstn -c --to safetensors").stdout == plain);
    succeed(folder, "convert a.zstn -o c.safetensors --stored");
    assert!(read("c.safetensors") == plain);
    succeed(folder, "verify a.zstn --stored --memory 1M -T 1");
    succeed(folder, "convert a.zstn x --to zt");
    assert_eq!(json(&run(folder, "info x --json"))["kind"], "ztensor");
    assert!(text(&succeed(folder, "ls a.zstn -q").stderr).is_empty());
    let got = succeed(folder, "get a.zstn w -q -T 1 -o w.bin");
    assert!(got.stdout.is_empty() && got.stderr.is_empty());
    // Options without an effect on a command are not accepted.
    for line in [
        "info a.zstn --quiet",
        "ls a.zstn --threads 2",
        "verify a.zstn --force",
        "get a.zstn w --memory 1G",
        "convert a.zstn c.safetensors --workers 2",
    ] {
        refuse(folder, line, "unexpected argument");
    }
}

#[test]
fn a_conversion_needs_an_output_that_says_what_to_make() {
    let folder = folder();
    let folder = folder.path();
    refuse(folder, "convert a.safetensors", "-o");
    refuse(
        folder,
        "convert a.safetensors out",
        "does not name a format",
    );
    refuse(folder, "convert a.safetensors -o -", "--to");
    refuse(
        folder,
        "convert a.safetensors b.zt -o c.zt",
        "cannot be used with",
    );
    refuse(
        folder,
        "convert a.safetensors -c --to compressed-tensors",
        "cannot be written to a stream",
    );
}

#[cfg(unix)]
#[test]
fn conversions_work_in_pipes() {
    use std::process::{Command, Stdio};

    let folder = folder();
    let program = zstn_tests::command::program();
    let out = Command::new("sh")
        .arg("-c")
        .arg(format!(
            "'{0}' convert - --to zt < a.safetensors | '{0}' convert - --to safetensors",
            program.display()
        ))
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    let path = folder.path().join("back.safetensors");
    std::fs::write(&path, out.stdout).unwrap();
    let reader = zstn::Reader::open(path).unwrap();
    assert_eq!(reader.read("w").unwrap().bytes, b"first");
}

#[test]
fn bench_names_the_kind_of_file_that_it_does_not_take() {
    let folder = crate::folder_with("m.zstn", &crate::vector("all_dtypes.zstn"));
    let out = zstn(folder.path(), &["bench", "m.zstn"]);
    assert_eq!(out.status.code(), Some(2));
    let said = text(&out.stderr);
    assert!(
        said.contains("m.zstn is a zstn file; bench packs"),
        "{said}"
    );
}
