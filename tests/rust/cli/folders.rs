//! Folders with unusual contents: files that cannot be packed are copied and named, and
//! files that were not checked are not reported as identical.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use zstn_tests::command::{json, text, zstn};
use zstn_tests::rng::Rng;
use zstn_tests::{checkpoint, with_header};

fn weights(name: &str, seed: u64) -> Vec<u8> {
    checkpoint(&[(name, "BF16", &Rng(seed).bf16_weights(400))])
}

fn index(pairs: &[(&str, &str)]) -> Vec<u8> {
    let pairs = pairs
        .iter()
        .map(|(tensor, file)| format!("\"{tensor}\":\"{file}\""));
    let pairs: Vec<String> = pairs.collect();
    format!("{{\"weight_map\":{{{}}}}}", pairs.join(",")).into_bytes()
}

/// Creates a folder `in` with these files.
fn folder(files: &[(&str, Vec<u8>)]) -> TempDir {
    let scratch = tempfile::tempdir().expect("a folder");
    for (name, bytes) in files {
        let path = scratch.path().join("in").join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, bytes).expect("written");
    }
    scratch
}

/// Runs a command, which must succeed, and returns its messages.
fn run(folder: &Path, arguments: &[&str]) -> String {
    let out = zstn(folder, arguments);
    let said = text(&out.stderr);
    assert!(out.status.success(), "{arguments:?}: {said}");
    said
}

fn shards() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("m-1.safetensors", weights("a", 1)),
        ("m-2.safetensors", weights("b", 2)),
        (
            "model.safetensors.index.json",
            index(&[("a", "m-1.safetensors"), ("b", "m-2.safetensors")]),
        ),
    ]
}

#[test]
fn verifying_a_folder_compares_every_file() {
    let mut files = shards();
    files.extend([
        ("adapter_model.safetensors", weights("lora", 3)),
        ("config.json", b"{}".to_vec()),
        ("vae/config.json", b"{\"vae\":1}".to_vec()),
        ("vae/model.safetensors", weights("v", 4)),
    ]);
    let scratch = folder(&files);
    run(scratch.path(), &["pack", "in", "-o", "packed", "-q"]);
    let verify = ["verify", "packed", "--against", "in"];
    assert!(run(scratch.path(), &verify).contains("identical to in"));
    let report = json(&zstn(scratch.path(), &[&verify[..], &["--json"]].concat()));
    assert_eq!(report["identical"], true);
    // Without the original, a change of these files cannot be detected.
    let said = run(scratch.path(), &["verify", "packed"]);
    assert!(said.contains("not checked"), "{said}");
    let report = json(&zstn(scratch.path(), &["verify", "packed", "--json"]));
    assert_eq!(
        (&report["identical"], &report["compared"]),
        (&false.into(), &false.into())
    );
    assert_eq!(
        report["unchecked_files"],
        serde_json::json!([
            "adapter_model.safetensors",
            "config.json",
            "vae/config.json"
        ])
    );
    // Given the index alone, only the weights are compared.
    let by_index = ["verify", "packed/model.zstn.index.json", "--against", "in"];
    let said = run(scratch.path(), &by_index);
    assert!(!said.contains("identical to in"), "{said}");

    let packed = scratch.path().join("packed");
    let original = scratch.path().join("in");
    for (place, name, problem) in [
        (&packed, "adapter_model.safetensors", "differs"),
        (&packed, "vae/config.json", "differs"),
        (&original, "model.safetensors.index.json", "differs"),
        (&packed, "config.json", "is missing"),
        (&original, "config.json", "is not in the original"),
    ] {
        let path = place.join(name);
        let before = fs::read(&path).expect("there");
        match problem {
            "differs" => {
                let text = String::from_utf8_lossy(&before).into_owned();
                let is_json = name.ends_with(".json");
                let changed = match is_json {
                    true => text.replacen('{', "{ ", 1).into_bytes(),
                    false => before[..before.len() - 1].to_vec(),
                };
                fs::write(&path, changed).expect("written");
            }
            _ => fs::remove_file(&path).expect("removed"),
        }
        let out = zstn(scratch.path(), &verify);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{name} {problem}: {said}");
        assert!(said.contains(&format!("{name} {problem}")), "{said}");
        fs::write(&path, before).expect("written");
    }
    run(scratch.path(), &verify);
}

/// Each case has the files of a folder, the files that are packed, and the names in the
/// warnings.
#[test]
fn what_cannot_be_packed_is_copied_and_named() {
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    let bom = with_header(
        "\u{feff}{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
        b"abcd",
    );
    let twice = {
        let tensor = "\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}";
        with_header(format!("{{{tensor},{tensor}}}"), b"abcd")
    };
    let two = index(&[("a", "m-1.safetensors")]);
    type Case<'a> = (Vec<(&'a str, Vec<u8>)>, &'a [&'a str], &'a [&'a str]);
    let cases: Vec<Case> = vec![
        // Shards in subfolders.
        (
            vec![
                ("shards/m-1.safetensors", weights("a", 1)),
                (
                    "model.safetensors.index.json",
                    index(&[("a", "shards/m-1.safetensors")]),
                ),
            ],
            &["shards/m-1.zstn"],
            &["model.safetensors.index.json"],
        ),
        // A missing shard.
        (
            shards()
                .into_iter()
                .filter(|(name, _)| *name != "m-2.safetensors")
                .collect(),
            &["m-1.zstn"],
            &["model.safetensors.index.json"],
        ),
        // Two indices that list the same shard.
        (
            vec![
                ("m-1.safetensors", weights("a", 1)),
                ("x/m-1.safetensors", weights("a", 1)),
                ("x/a.safetensors.index.json", two.clone()),
                ("x/b.safetensors.index.json", two),
            ],
            &["m-1.zstn", "x/a.zstn.index.json", "x/m-1.zstn"],
            &["x/b.safetensors.index.json"],
        ),
        // Variants in the same folder.
        (
            [
                shards(),
                vec![
                    ("f-1.safetensors", weights("a", 7)),
                    (
                        "model.safetensors.index.fp16.json",
                        index(&[("a", "f-1.safetensors")]),
                    ),
                    (
                        "model.safetensors.bf16.index.json",
                        index(&[("b", "g-1.safetensors")]),
                    ),
                    ("g-1.safetensors", weights("b", 8)),
                ],
            ]
            .concat(),
            &[
                "f-1.zstn",
                "g-1.zstn",
                "m-1.zstn",
                "m-2.zstn",
                "model.zstn.bf16.index.json",
                "model.zstn.index.fp16.json",
                "model.zstn.index.json",
            ],
            &[],
        ),
        // A variant in the folder of the model.
        (
            vec![
                ("model.safetensors", weights("a", 1)),
                ("f-1.safetensors", weights("a", 7)),
                (
                    "model.safetensors.index.fp16.json",
                    index(&[("a", "f-1.safetensors")]),
                ),
            ],
            &["f-1.zstn", "model.zstn", "model.zstn.index.fp16.json"],
            &[],
        ),
        // Files whose names do not match their content.
        (
            vec![
                ("a/m.safetensors", weights("a", 1)),
                ("a/empty.safetensors", Vec::new()),
                ("a/pointer.safetensors", pointer.to_vec()),
                ("a/bad.safetensors.index.json", b"{}".to_vec()),
                ("a/bom.safetensors", bom),
            ],
            &["a/bom.zstn", "a/m.zstn"],
            &[
                "a/bad.safetensors.index.json",
                "a/empty.safetensors",
                "a/pointer.safetensors",
            ],
        ),
        // A name that occurs twice in a header; readers disagree about the entry to
        // use.
        (vec![("a/twice.safetensors", twice)], &["a/twice.zstn"], &[]),
        // Several files without an index.
        (
            vec![
                ("a.safetensors", weights("a", 1)),
                ("b.safetensors", weights("b", 1)),
            ],
            &["a.zstn", "b.zstn"],
            &[],
        ),
    ];
    for (files, packed, warned) in cases {
        let scratch = folder(&files);
        let at = scratch.path();
        let said = run(at, &["pack", "in", "-o", "packed", "-q"]);
        for name in packed {
            assert!(at.join("packed").join(name).is_file(), "{name}: {said}");
        }
        for name in warned {
            assert!(at.join("packed").join(name).is_file(), "{name}: {said}");
            assert!(
                said.contains(&format!("{name} was copied, not packed")),
                "{said}"
            );
        }
        let said = run(at, &["verify", "packed", "--against", "in"]);
        assert!(said.contains("identical to in"), "{said}");
        run(at, &["verify", "packed"]);
        run(at, &["unpack", "packed", "-o", "back", "-q"]);
        for (name, bytes) in &files {
            assert!(
                fs::read(at.join("back").join(name)).expect(name) == *bytes,
                "{name}"
            );
        }
    }
    // No file can be packed.
    let scratch = folder(&[("a/pointer.safetensors", pointer.to_vec())]);
    let out = zstn(scratch.path(), &["pack", "in", "-o", "packed"]);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("Git LFS pointer"));
}

#[test]
fn a_header_over_the_cap_of_the_format_is_kept() {
    let (before, after) = ("{\"__metadata__\":{\"t\":\"", "\"}}");
    let text = "x".repeat(100_000_001 - before.len() - after.len());
    let long = with_header([before, &text, after].concat(), b"abcd");
    let scratch = folder(&[("m.safetensors", long.clone())]);
    let at = scratch.path();
    let said = run(at, &["pack", "in/m.safetensors", "-o", "m.zstn"]);
    assert!(said.contains("as a whole"), "{said}");
    run(at, &["unpack", "m.zstn", "-o", "back.safetensors"]);
    assert!(fs::read(at.join("back.safetensors")).expect("there") == long);
}

#[test]
fn a_file_that_breaks_the_rules_is_kept_whole_also_with_a_base() {
    let mut odd = weights("a", 5);
    odd.extend_from_slice(b"tail");
    let scratch = folder(&[
        ("m-1.safetensors", odd.clone()),
        ("m-2.safetensors", weights("b", 6)),
        shards()[2].clone(),
    ]);
    for (name, bytes) in shards() {
        fs::create_dir_all(scratch.path().join("base")).expect("made");
        fs::write(scratch.path().join("base").join(name), bytes).expect("written");
    }
    let at = scratch.path();
    for (input, base, packed) in [
        ("in/m-1.safetensors", "base/m-1.safetensors", "m.z4dm"),
        ("in", "base", "packed"),
    ] {
        let said = run(at, &["pack", input, "--base", base, "-o", packed]);
        assert!(
            said.contains("packed as a whole, without the base"),
            "{said}"
        );
    }
    run(at, &["unpack", "m.z4dm", "-o", "m.safetensors"]);
    assert!(fs::read(at.join("m.safetensors")).expect("there") == odd);
    run(
        at,
        &["verify", "packed", "--base", "base", "--against", "in"],
    );
    run(at, &["unpack", "packed", "--base", "base", "-o", "back"]);
    assert!(fs::read(at.join("back/m-1.safetensors")).expect("there") == odd);
}

#[test]
fn a_message_says_no_more_than_was_checked() {
    let scratch = folder(&[("m.safetensors", weights("a", 1))]);
    let at = scratch.path();
    run(
        at,
        &["pack", "in/m.safetensors", "-o", "m.zstn", "--no-integrity"],
    );
    let said = run(at, &["verify", "m.zstn"]);
    assert!(
        said.contains("has no checksums") && !said.contains("all checksums"),
        "{said}"
    );
    run(at, &["convert", "in/m.safetensors", "m.zt"]);
    let said = run(at, &["verify", "m.zt", "--against", "in/m.safetensors"]);
    assert!(
        said.contains("the tensors are identical to those of"),
        "{said}"
    );
    let verify = ["verify", "m.zt", "--against", "in/m.safetensors", "--json"];
    let report = json(&zstn(at, &verify));
    assert_eq!(
        (&report["identical"], &report["compared"]),
        (&false.into(), &true.into())
    );
}

#[test]
fn a_pipeline_is_listed_by_its_parts() {
    let scratch = folder(&[
        ("model_index.json", b"{}".to_vec()),
        ("unet/model.safetensors", weights("u", 1)),
        ("vae/model.safetensors", weights("v", 2)),
    ]);
    run(scratch.path(), &["pack", "in", "-o", "packed", "-q"]);
    for folder in ["in", "packed"] {
        let out = zstn(scratch.path(), &["ls", folder, "--json"]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        let lines = text(&out.stdout);
        let inputs: Vec<serde_json::Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(inputs.len(), 2, "{lines}");
        let input = inputs[1]["input"].as_str().expect("a path");
        assert!(
            Path::new(input).starts_with(Path::new(folder).join("vae")),
            "{input}"
        );
        assert!(zstn(scratch.path(), &["info", folder]).status.success());
    }
}

#[test]
fn a_conversion_into_a_folder_is_called_like_its_input() {
    let scratch = folder(&[("m.safetensors", weights("a", 1))]);
    fs::create_dir(scratch.path().join("out")).expect("made");
    for (output, kind, name) in [("out/", "zstn", "m.zstn"), ("out", "zt", "m.zt")] {
        run(
            scratch.path(),
            &["convert", "in/m.safetensors", output, "--to", kind],
        );
        assert!(scratch.path().join("out").join(name).is_file(), "{name}");
    }
}

#[cfg(unix)]
#[test]
fn the_cache_of_a_repository_is_refused_with_a_hint() {
    let scratch = folder(&[("hub/blobs/abc", weights("a", 1))]);
    let revision = scratch.path().join("in/hub/snapshots/r1");
    fs::create_dir_all(&revision).expect("made");
    std::os::unix::fs::symlink("../../blobs/abc", revision.join("model.safetensors"))
        .expect("a link");
    for input in ["in", "in/hub"] {
        let out = zstn(scratch.path(), &["pack", input, "-o", "packed"]);
        assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
        assert!(
            text(&out.stderr).contains("snapshots/r1"),
            "{}",
            text(&out.stderr)
        );
    }
    run(
        scratch.path(),
        &["pack", "in/hub/snapshots/r1", "-o", "packed"],
    );
}

#[cfg(unix)]
#[test]
fn more_shards_than_descriptors() {
    use std::process::Command;

    use zstn_tests::command::program;

    let names: Vec<String> = (0..200).map(|n| format!("m-{n:05}.safetensors")).collect();
    let mut files: Vec<(&str, Vec<u8>)> = Vec::new();
    for (number, name) in names.iter().enumerate() {
        files.push((
            name,
            checkpoint(&[(&format!("t{number}"), "U8", &[1, 2, 3])]),
        ));
    }
    let tensors: Vec<String> = (0..names.len()).map(|n| format!("t{n}")).collect();
    let pairs: Vec<(&str, &str)> = tensors
        .iter()
        .zip(&names)
        .map(|(tensor, name)| (&**tensor, &**name))
        .collect();
    files.push(("model.safetensors.index.json", index(&pairs)));
    let scratch = folder(&files);
    for arguments in [
        "pack in -o packed -q",
        "verify packed --against in",
        "get in t7 -o x.bin",
        "get packed t7 -o y.bin",
        "unpack packed -o back -q",
    ] {
        let out = Command::new("sh")
            .args(["-c", &format!("ulimit -n 100; exec \"$0\" {arguments}")])
            .arg(program())
            .current_dir(scratch.path())
            .output()
            .expect("a shell");
        assert!(out.status.success(), "{arguments}: {}", text(&out.stderr));
    }
}

#[test]
fn verifying_a_folder_names_the_files_that_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("model.safetensors"), weights("w", 1)).unwrap();
    fs::write(at("other.npy"), b"no array").unwrap();
    let out = zstn(folder.path(), &["verify", "."]);
    let said = text(&out.stderr);
    assert!(
        said.contains("not checked") && said.contains("other.npy"),
        "{said}"
    );
}
