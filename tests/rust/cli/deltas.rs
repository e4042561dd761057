//! Deltas on the command line: creating, listing and restoring them, packed bases,
//! chains of bases, and single buffers.

use std::path::{Path, PathBuf};
use std::process::Command;

use zstn_tests::cases;
use zstn_tests::command::{json, program, text, zstn};

use super::{folder_with, run, vector};

#[test]
fn deltas_pack_and_unpack_against_their_base() {
    let base = vector("md_two_percent.base.safetensors");
    let folder = folder_with("base.safetensors", &base);
    let at = |name: &str| folder.path().join(name);
    let target = vector("md_two_percent.target.safetensors");
    std::fs::write(at("tuned.safetensors"), &target).unwrap();
    let arguments = [
        "pack",
        "tuned.safetensors",
        "--base",
        "base.safetensors",
        "--json",
    ];
    let report = json(&zstn(folder.path(), &arguments));
    let ours = report["packed_bytes"].as_u64().expect("a size");
    assert!(ours < target.len() as u64 / 4, "{ours} bytes");
    let arguments = [
        "unpack",
        "tuned.z4dm",
        "--base",
        "base.safetensors",
        "-o",
        "back",
    ];
    let out = zstn(folder.path(), &arguments);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(std::fs::read(at("back")).unwrap() == target);
    std::fs::write(at("other.safetensors"), vector("scalars.safetensors")).unwrap();
    for (arguments, status, sentence) in [
        (&["unpack", "tuned.z4dm", "-o", "x"][..], 2, "--base"),
        (
            &[
                "unpack",
                "tuned.z4dm",
                "--base",
                "tuned.safetensors",
                "-o",
                "x",
            ],
            1,
            "made against",
        ),
        (&["verify", "tuned.z4dm"], 2, "--base"),
        (&["pack", "tuned.z4dm", "-o", "x"], 2, "already packed"),
        (
            &["get", "tuned.z4dm", "model.layers.0.mlp.down_proj.weight"],
            2,
            "as its base (with --base",
        ),
        (&["ls", "tuned.z4dm", "--base", "tuned.safetensors"], 0, ""),
        (
            &["ls", "base.safetensors", "--base", "tuned.safetensors"],
            2,
            "takes no base",
        ),
        (
            &["ls", "tuned.z4dm", "--base", "other.safetensors"],
            1,
            "has no such tensor",
        ),
    ] {
        let out = zstn(folder.path(), arguments);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(sentence), "{arguments:?} says: {said}");
    }
}

#[test]
fn a_delta_of_a_file_of_another_format_keeps_its_whole_name() {
    let old = cases::read("gguf", "k-blocks.gguf");
    let folder = folder_with("old.gguf", &old);
    let at = |name: &str| folder.path().join(name);
    let mut new = old.clone();
    *new.last_mut().expect("not empty") ^= 1;
    std::fs::write(at("new.gguf"), &new).unwrap();
    let succeeds = |line: &str| {
        let out = run(folder.path(), line);
        assert!(out.status.success(), "{line}: {}", text(&out.stderr));
        out
    };
    let report = json(&succeeds("pack new.gguf --base old.gguf --json"));
    assert_eq!(report["files"][0]["original_kind"], "gguf");
    let list = |line: &str| {
        let list = json(&succeeds(line));
        let mut tensors = list["tensors"].as_array().expect("a list").clone();
        tensors.sort_by_key(|tensor| tensor["name"].to_string());
        let tensors = tensors.into_iter();
        let keys = tensors.map(|tensor| ["name", "dtype", "shape"].map(|key| tensor[key].clone()));
        keys.collect::<Vec<_>>()
    };
    let plain = list("ls new.gguf --json");
    let metadata = json(&succeeds("info new.gguf --json"))["metadata"].clone();
    let name = plain[0][0].as_str().expect("a name");
    let values = succeeds(&format!("get new.gguf {name} -o -")).stdout;
    std::fs::rename(at("new.gguf"), at("original")).unwrap();
    succeeds("pack old.gguf");
    for base in ["old.gguf", "old.gguf.zstn"] {
        let file = format!("new.gguf.z4dm --base {base}");
        assert_eq!(list(&format!("ls {file} --json")), plain);
        let info = json(&succeeds(&format!("info {file} --json")));
        assert_eq!(
            (&info["kind"], &info["original_kind"]),
            (&"z4dm".into(), &"gguf".into())
        );
        assert_eq!(info["metadata"], metadata);
        assert_stored_bytes(&json(&succeeds(&format!("ls {file} --json"))), &info);
        let table = succeeds(&format!("ls {file}")).stdout;
        let table = text(&table);
        assert_eq!(table.matches("from base").count(), plain.len(), "{table}");
        let facts = succeeds(&format!("info {file}")).stdout;
        assert!(text(&facts).contains("2 checkpoints"), "{}", text(&facts));
        assert!(succeeds(&format!("get {file} {name} -o -")).stdout == values);
        succeeds(&format!("verify {file} --against original"));
        succeeds(&format!("unpack {file}"));
        assert!(std::fs::read(at("new.gguf")).unwrap() == new);
        std::fs::remove_file(at("new.gguf")).unwrap();
    }
    let out = run(
        folder.path(),
        "unpack new.gguf.z4dm --base old.gguf -o x.safetensors",
    );
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    assert!(!at("x.safetensors").exists());
}

/// Asserts that `ls` and `info` of a delta, which is opened with its base, state the stored
/// bytes of the delta and not those of the restored file. The tensors are so short that they
/// share a record.
fn assert_stored_bytes(list: &serde_json::Value, info: &serde_json::Value) {
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    let tensors = list["tensors"].as_array().expect("a list");
    for tensor in tensors {
        let stored = number(&tensor["packed_bytes"]);
        assert!(0 < stored && stored < number(&tensor["original_bytes"]));
        assert_eq!(tensor["base"], "delta");
        let part = &tensor["parts"][0];
        let end = number(&part["offset"]) + number(&part["packed_bytes"]);
        assert!(end <= number(&list["packed_bytes"]), "{tensor}");
    }
    let shares = tensors.iter().map(|tensor| number(&tensor["packed_bytes"]));
    let by_dtype = info["by_dtype"].as_object().expect("an object").values();
    let sum: u64 = by_dtype.map(|total| number(&total["packed_bytes"])).sum();
    assert_eq!(sum, shares.sum::<u64>());
    assert!(info["chain_complete"] == true, "{info}");
}

#[test]
fn deltas_are_listed_and_read_with_their_base() {
    let folder = folder_with(
        "base.safetensors",
        &vector("md_all_dtypes.base.safetensors"),
    );
    let at = |name: &str| folder.path().join(name);
    std::fs::write(
        at("tuned.safetensors"),
        vector("md_all_dtypes.target.safetensors"),
    )
    .unwrap();
    std::fs::write(at("theirs.z4dm"), vector("md_all_dtypes.z4dm")).unwrap();
    for arguments in [
        &["pack", "tuned.safetensors", "--base", "base.safetensors"][..],
        &["pack", "base.safetensors"],
    ] {
        let out = zstn(folder.path(), arguments);
        assert!(out.status.success(), "{}", text(&out.stderr));
    }
    for (delta, base) in [
        ("tuned.z4dm", "base.safetensors"),
        ("tuned.z4dm", "base.zstn"),
        ("theirs.z4dm", "base.zstn"),
    ] {
        let list = json(&zstn(folder.path(), &["ls", delta, "--json"]));
        let tensors = list["tensors"].as_array().expect("a list").clone();
        assert_eq!(list["kind"], "z4dm");
        assert!(tensors.iter().any(|tensor| tensor["base"] == "copy"));
        assert!(tensors.iter().any(|tensor| tensor["base"].is_null()));
        // The list alternates between copied, differing and new tensors.
        for tensor in tensors.iter().step_by(5) {
            let name = tensor["name"].as_str().expect("a name");
            let read = zstn(
                folder.path(),
                &["get", delta, name, "--base", base, "-o", "-"],
            );
            assert!(read.status.success(), "{}", text(&read.stderr));
            let truth = zstn(
                folder.path(),
                &["get", "tuned.safetensors", name, "-o", "-"],
            );
            assert!(read.stdout == truth.stdout, "{delta} over {base}: {name}");
        }
        let info = json(&zstn(folder.path(), &["info", delta, "--json"]));
        let copied = tensors.iter().filter(|t| t["base"] == "copy").count();
        assert_eq!(info["copied_tensors"], copied);
        let verified = json(&zstn(
            folder.path(),
            &[
                "verify",
                delta,
                "--base",
                "base.safetensors",
                "--against",
                "tuned.safetensors",
                "--json",
            ],
        ));
        assert_eq!(verified["compared"], true);
    }
}

fn folder_with_all(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).expect("written");
    }
    folder
}

fn succeed(folder: &Path, lines: &[&str]) {
    for line in lines {
        let out = run(folder, line);
        assert!(out.status.success(), "{line}: {}", text(&out.stderr));
    }
}

/// Runs commands that must exit with this status and print every given sentence.
fn refuse(folder: &Path, refusals: &[(&str, i32, &[&str])]) {
    for (line, status, sentences) in refusals {
        let out = run(folder, line);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(*status), "{line}: {said}");
        for sentence in *sentences {
            assert!(said.contains(sentence), "{line} says: {said}");
        }
        assert!(!folder.join("x").exists(), "{line}");
    }
}

/// Creates a folder with `v1` to `v3`, plain, with `v1.zstn`, and with `v2.z4dm` and
/// `v3.z4dm`, each packed against the previous generation.
fn generations() -> tempfile::TempDir {
    let first = vector("md_two_percent.base.safetensors");
    let second = vector("md_two_percent.target.safetensors");
    let mut third = second.clone();
    let middle = third.len() / 2;
    for byte in third[middle..].iter_mut().step_by(500) {
        *byte ^= 1;
    }
    let folder = folder_with_all(&[("v1", &first), ("v2", &second), ("v3", &third)]);
    succeed(
        folder.path(),
        &[
            "pack v1",
            "pack v2 --base v1.zstn",
            "pack v3 --base v2.z4dm --base v1.zstn --memory 64M",
        ],
    );
    folder
}

#[test]
fn packed_bases_and_chains_serve_every_verb() {
    let folder = generations();
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    succeed(
        folder.path(),
        &[
            "pack v2 --base v1 -o plain2",
            "pack v3 --base v2 -o plain3",
            "unpack v2.z4dm --base v1.zstn -o back2",
            "unpack v3.z4dm --base v2.z4dm --base v1.zstn -o back3",
            "verify v2.z4dm --base v1.zstn --against v2",
            "verify v3.z4dm --base v2.z4dm --base v1 --against v3",
            "info v3.z4dm --base v2.z4dm --base v1.zstn",
            "ls v3.z4dm --base v2.z4dm --base v1.zstn",
        ],
    );
    assert!(read("plain2") == read("v2.z4dm"));
    assert!(read("plain3") == read("v3.z4dm"));
    assert!(read("back2") == read("v2"));
    assert!(read("back3") == read("v3"));
    let list = json(&run(folder.path(), "ls v3 --json"));
    for tensor in list["tensors"].as_array().expect("a list") {
        let name = tensor["name"].as_str().expect("a name");
        let chain = format!("get v3.z4dm {name} --base v2.z4dm --base v1.zstn -o -");
        let plain = format!("get v3 {name} -o -");
        let [read, truth] = [chain, plain].map(|line| run(folder.path(), &line));
        assert!(read.status.success(), "{}", text(&read.stderr));
        assert!(read.stdout == truth.stdout, "{name}");
    }
}

#[test]
fn chains_that_do_not_fit_are_refused() {
    let folder = generations();
    let more = "is a delta from another checkpoint; give that checkpoint as its base";
    refuse(
        folder.path(),
        &[
            (
                "unpack v3.z4dm --base v2.z4dm -o x",
                2,
                &["v2.z4dm", more, "--base"],
            ),
            ("verify v3.z4dm --base v2.z4dm", 2, &["v2.z4dm", more]),
            ("pack v3 --base v2.z4dm -o x", 2, &["v2.z4dm", more]),
            (
                "unpack v2.z4dm --base v1.zstn --base v1 -o x",
                2,
                &["v1.zstn", "takes no base"],
            ),
            (
                "unpack v1.zstn --base v1 -o x",
                2,
                &["v1.zstn", "takes no base"],
            ),
            ("verify v1.zstn --base v1", 2, &["v1.zstn", "takes no base"]),
            (
                "unpack v3.z4dm --base v1.zstn -o x",
                1,
                &["v3.z4dm", "v1.zstn", "made against"],
            ),
            (
                "ls v3.z4dm --base v2.z4dm --base v1 --base v1",
                2,
                &["takes no base"],
            ),
            // A base must not be replaced, nor a file restored from it.
            (
                "unpack v2.z4dm --base v1.zstn -o v1.zstn --force",
                2,
                &["v1.zstn", "is being read"],
            ),
            (
                "pack v3 --base v2.z4dm --base v1.zstn -o v1.zstn --force",
                2,
                &["v1.zstn", "is being read"],
            ),
        ],
    );
}

#[test]
fn a_lack_of_temporary_space_names_the_folder() {
    let variable = if cfg!(windows) { "TMP" } else { "TMPDIR" };
    let missing: PathBuf = ["no", "such", "folder"].iter().collect();
    let folder = generations();
    let out = Command::new(program())
        .args(["unpack", "v2.z4dm", "--base", "v1.zstn", "-o", "x"])
        .current_dir(folder.path())
        .env(variable, &missing)
        .output()
        .expect("zstn runs");
    let said = text(&out.stderr);
    assert!(!out.status.success());
    for part in ["temporary file", &missing.to_string_lossy(), variable] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!folder.path().join("x").exists());
}

#[test]
fn every_tensor_of_a_delta_is_counted() {
    let folder = folder_with_all(&[
        ("base", &vector("md_all_dtypes.base.safetensors")),
        ("tuned", &vector("md_all_dtypes.target.safetensors")),
    ]);
    let report = json(&run(folder.path(), "pack tuned --base base --json"));
    let file = &report["files"][0];
    let count = |field: &str| file[field].as_u64().expect(field);
    assert!(count("whole_tensors") > 0);
    let sum = count("copied_tensors") + count("differing_tensors") + count("whole_tensors");
    assert_eq!(sum, count("tensors"));
    assert_eq!(report["bases"], serde_json::json!(["base"]));
    let out = run(folder.path(), "pack tuned --base base -o again");
    let said = text(&out.stderr);
    let shares = format!(
        "{} tensors: {} as in the base, {} as deltas, {} new or stored whole",
        count("tensors"),
        count("copied_tensors"),
        count("differing_tensors"),
        count("whole_tensors")
    );
    assert!(said.contains(&shares), "{said}");
}

#[test]
fn buffers_go_against_a_base_and_back() {
    let mut count = 0;
    for case in cases::deltas("zstn", "z4delta") {
        let [theirs, base, current] =
            ["container", "reference", "current"].map(|field| cases::named("zstn", &case[field]));
        let folder = folder_with_all(&[("theirs", &theirs), ("base", &base), ("w", &current)]);
        let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
        let report = json(&run(folder.path(), "compress w --base base --json"));
        assert_eq!(report["bases"], serde_json::json!(["base"]));
        assert_eq!(report["output"], "w.z4dl");
        assert_eq!(report["packed_bytes"], read("w.z4dl").len() as u64);
        let reference = zstn::compress_delta(
            &zstn::Engine::new(2).unwrap(),
            &current,
            &base,
            None,
            zstn::Effort::Balanced,
        );
        assert!(read("w.z4dl") == reference.unwrap(), "{}", case["name"]);
        std::fs::remove_file(folder.path().join("w")).unwrap();
        let report = json(&run(folder.path(), "decompress w.z4dl --base base --json"));
        assert_eq!(
            (&report["bases"][0], &report["output"]),
            (&"base".into(), &"w".into())
        );
        succeed(folder.path(), &["decompress theirs --base base -o back"]);
        assert!(read("w") == current && read("back") == current);
        count += 1;
    }
    assert_eq!(count, 12);
}

#[test]
fn buffers_and_bases_that_do_not_fit_are_refused() {
    let (base, current) = ([7; 4000], [9; 4000]);
    let folder = folder_with_all(&[("base", &base), ("other", &current), ("w", &current)]);
    std::fs::write(folder.path().join("short"), &base[1..]).unwrap();
    succeed(
        folder.path(),
        &["compress w --base base --dtype bf16", "compress w"],
    );
    refuse(
        folder.path(),
        &[
            (
                "compress w --base short -o x",
                2,
                &["4000 bytes", "3999", "same length"],
            ),
            ("compress w --base missing -o x", 3, &["missing"]),
            ("decompress w.z4dl -o x", 2, &["w.z4dl", "delta", "--base"]),
            (
                "decompress w.z4ai --base base -o x",
                2,
                &["w.z4ai", "takes no base"],
            ),
            (
                "decompress w.z4dl --base other -o x",
                1,
                &["w.z4dl", "other", "another base"],
            ),
            (
                "decompress w.z4dl --base short -o x",
                1,
                &["w.z4dl", "short", "4000 bytes"],
            ),
            (
                "decompress w.z4dl --base base --limit 1000 -o x",
                1,
                &["4000 bytes", "limit of 1000"],
            ),
            (
                "decompress w.z4dl --base base -o base --force",
                2,
                &["base", "is being read"],
            ),
            ("ls w.z4dl", 1, &["Z4DL", "decompress it with its base"]),
        ],
    );
}
