//! `pack --sha256`: a digest that is trusted while packing and compared later.

use std::fs;

use zstn_tests::command::{json, text, zstn};
use zstn_tests::{many_kinds, sha256};

use crate::folder_with;

#[test]
fn a_wrong_one_is_found_by_everything_that_restores_the_file() {
    let original = many_kinds(50_000);
    let folder = folder_with("model.safetensors", &original);
    let at = |name: &str| folder.path().join(name);
    let (right, wrong) = (sha256(&original), "ab".repeat(32));
    let zstn = |arguments: &[&str]| zstn(folder.path(), arguments);
    let pack = |name: &str, digest: &str| {
        let out = zstn(&["pack", "model.safetensors", "-o", name, "--sha256", digest]);
        assert!(out.status.success(), "{}", text(&out.stderr));
    };
    pack("right.zstn", &right.to_uppercase());
    pack("wrong.zstn", &wrong);

    let out = zstn(&["unpack", "right.zstn", "-o", "back.safetensors"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(fs::read(at("back.safetensors")).unwrap() == original);
    let out = zstn(&["verify", "right.zstn", "--confirm"]);
    assert!(out.status.success());
    let message = text(&out.stderr);
    assert!(
        message.contains("records that its SHA-256 has been compared"),
        "{message}"
    );
    let info = json(&zstn(&["info", "right.zstn", "--json"]));
    assert_eq!(info["originals"][0]["claimed"], false, "{info}");

    let out = zstn(&["verify", "wrong.zstn", "--fast"]);
    assert!(out.status.success());
    let message = text(&out.stderr);
    assert!(
        message.contains("SHA-256 of the whole file not compared"),
        "{message}"
    );
    let out = zstn(&["verify", "wrong.zstn", "--fast", "--confirm"]);
    assert_eq!(out.status.code(), Some(2));

    for arguments in [
        &["unpack", "wrong.zstn", "-o", "out"][..],
        &["unpack", "wrong.zstn", "-o", "-"],
        &["verify", "wrong.zstn"],
        &["verify", "wrong.zstn", "--confirm"],
        &["verify", "wrong.zstn", "--against", "model.safetensors"],
        &["convert", "wrong.zstn", "out.safetensors"],
        &[
            "pack",
            "model.safetensors",
            "-o",
            "out.z4dm",
            "--base",
            "wrong.zstn",
        ],
    ] {
        let out = zstn(&[arguments, &["--json"]].concat());
        let message = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{arguments:?}: {message}");
        match arguments.contains(&"-") {
            // Tensors with right digests arrive, but no complete file.
            true => assert!(out.stdout.len() < original.len() && original.starts_with(&out.stdout)),
            false => assert!(out.stdout.is_empty(), "{arguments:?}"),
        }
        let error: serde_json::Value = serde_json::from_str(&message).unwrap();
        assert_eq!(error["error"]["rule"], "zstn.file_digest");
        let message = error["error"]["message"].as_str().unwrap();
        assert!(
            message.contains(&right) && message.contains(&wrong),
            "{message}"
        );
        assert!(message.contains("pack the right file again"), "{message}");
    }
    for name in ["out", "out.safetensors", "out.z4dm"] {
        assert!(!at(name).exists(), "{name}");
    }
    // Tensors have their own digests.
    let out = zstn(&["convert", "wrong.zstn", "shards.safetensors.index.json"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
}

#[test]
fn standard_output_receives_the_same() {
    let original = many_kinds(50_000);
    let folder = folder_with("model.safetensors", &original);
    let digest = sha256(&original);
    let packed = |line: &[&str]| {
        zstn(
            folder.path(),
            &[&["pack", "--sha256", &digest], line].concat(),
        )
    };
    let out = packed(&["model.safetensors", "-o", "file.zstn"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let out = packed(&["model.safetensors", "-c"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(out.stdout == fs::read(folder.path().join("file.zstn")).unwrap());
}

#[test]
fn what_has_no_place_for_one_is_refused() {
    let folder = folder_with("model.safetensors", &many_kinds(9_000));
    fs::create_dir(folder.path().join("folder")).unwrap();
    let copy = folder.path().join("folder/model.safetensors");
    fs::copy(folder.path().join("model.safetensors"), copy).unwrap();
    let digest = "ab".repeat(32);
    let short = &digest[1..];
    for (line, digest, reason) in [
        ("model.safetensors", short, "64 hexadecimal digits"),
        ("model.safetensors", "xyz", "64 hexadecimal digits"),
        (
            "model.safetensors folder/model.safetensors -o folder",
            &*digest,
            "a single file",
        ),
        ("folder", &*digest, "several files"),
        (
            "model.safetensors --base model.safetensors",
            &*digest,
            "--base",
        ),
        (
            "model.safetensors --no-integrity",
            &*digest,
            "--no-integrity",
        ),
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        let out = zstn(
            folder.path(),
            &[&["pack", "--json", "--sha256", digest], &arguments[..]].concat(),
        );
        let message = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{line}: {message}");
        let error: serde_json::Value = serde_json::from_str(&message).unwrap();
        assert_eq!(error["error"]["kind"], "usage", "{line}");
        assert!(message.contains(reason), "{line}: {message}");
    }
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 2, "nothing was written");
    let report = json(&zstn(
        folder.path(),
        &["pack", "model.safetensors", "--json", "--sha256", &digest],
    ));
    assert_eq!(report["files"][0]["storage"], "indexed");
}
