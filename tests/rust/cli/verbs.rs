//! Each command once, as a user would type it.

use std::process::{Command, Stdio};

use zstn_tests::command::{json, program, text, zstn};
use zstn_tests::rng::Rng;

use super::{folder_with, vector};

#[test]
fn pack_unpack_verify_ls_info_get() {
    let original = vector("tiny_llama_tied.safetensors");
    let folder = folder_with("model.safetensors", &original);
    let at = |name: &str| folder.path().join(name);

    let packed = zstn(folder.path(), &["pack", "model.safetensors", "--json"]);
    let report = json(&packed);
    assert_eq!(report["original_bytes"], original.len() as u64);
    assert_eq!(report["files"][0]["aliased_tensors"], 2);
    assert_eq!(
        report["packed_bytes"],
        std::fs::metadata(at("model.zstn")).unwrap().len()
    );

    let out = zstn(
        folder.path(),
        &["unpack", "model.zstn", "-o", "back.safetensors"],
    );
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(std::fs::read(at("back.safetensors")).unwrap() == original);

    let verified = json(&zstn(
        folder.path(),
        &[
            "verify",
            "model.zstn",
            "--against",
            "model.safetensors",
            "--json",
        ],
    ));
    assert_eq!(
        (&verified["ok"], &verified["compared"]),
        (&true.into(), &true.into())
    );

    let list = json(&zstn(folder.path(), &["ls", "model.zstn", "--json"]));
    let plain = json(&zstn(folder.path(), &["ls", "model.safetensors", "--json"]));
    let names = |list: &serde_json::Value| -> Vec<String> {
        let tensors = list["tensors"].as_array().expect("a list");
        tensors.iter().map(|t| t["name"].to_string()).collect()
    };
    assert_eq!(names(&list), names(&plain));
    let table = text(&zstn(folder.path(), &["ls", "model.zstn"]).stdout);
    assert_eq!(table.lines().count(), names(&list).len() + 1);

    let info = json(&zstn(folder.path(), &["info", "model.zstn", "--json"]));
    assert_eq!(
        (&info["kind"], &info["aliased_tensors"]),
        (&"zstn".into(), &2.into())
    );

    let name = list["tensors"][0]["name"].as_str().expect("a name");
    let out = zstn(folder.path(), &["get", "model.zstn", name, "-o", "w.bin"]);
    assert!(out.status.success());
    let out = zstn(
        folder.path(),
        &["get", "model.safetensors", name, "-o", "-"],
    );
    assert!(std::fs::read(at("w.bin")).unwrap() == out.stdout);
    let out = zstn(
        folder.path(),
        &["get", "model.zstn", name, "-o", "w.safetensors"],
    );
    assert!(out.status.success());
    let one = json(&zstn(folder.path(), &["ls", "w.safetensors", "--json"]));
    assert_eq!(one["tensors"][0]["dtype"], list["tensors"][0]["dtype"]);
    assert_eq!(one["tensors"][0]["shape"], list["tensors"][0]["shape"]);
}

#[test]
fn derived_names_never_replace_a_file() {
    let original = vector("scalars.safetensors");
    let folder = folder_with("m.safetensors", &original);
    assert!(
        zstn(folder.path(), &["pack", "m.safetensors"])
            .status
            .success()
    );
    // Unpacking in the same folder would replace the original.
    let out = zstn(folder.path(), &["unpack", "m.zstn"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("--force"));
    assert!(
        zstn(folder.path(), &["unpack", "m.zstn", "--force"])
            .status
            .success()
    );
    assert!(std::fs::read(folder.path().join("m.safetensors")).unwrap() == original);
}

#[test]
fn pipes_work_both_ways() {
    let original = vector("scalars.safetensors");
    let folder = folder_with("m.safetensors", &original);
    let run = |arguments: &[&str], input: &[u8]| {
        let mut child = Command::new(program())
            .args(arguments)
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("zstn runs");
        std::io::Write::write_all(&mut child.stdin.take().expect("piped"), input).expect("written");
        child.wait_with_output().expect("zstn ends").stdout
    };
    let packed = run(&["pack", "-", "--quiet"], &original);
    assert!(packed.starts_with(b"ZSTN"));
    assert!(run(&["unpack", "-", "--quiet"], &packed) == original);
}

#[test]
fn bench_reports_what_it_measured() {
    let folder = folder_with("m.safetensors", &vector("float_weights.safetensors"));
    for effort in ["fast", "balanced", "max"] {
        let report = json(&zstn(
            folder.path(),
            &[
                "bench",
                "m.safetensors",
                "--effort",
                effort,
                "--threads",
                "2",
                "--runs",
                "1",
                "--json",
            ],
        ));
        assert!(
            report["packed_bytes"]
                .as_u64()
                .is_some_and(|b| b > 50_000 && b < 98_584)
        );
        assert!(report["pack_seconds"].as_f64().is_some_and(|s| s > 0.0));
        assert!(report["unpack_seconds"].as_f64().is_some_and(|s| s > 0.0));
    }
}

#[test]
fn frames_compress_and_decompress() {
    let weights = Rng(13).bf16_weights(40_000);
    let folder = folder_with("w.bin", &weights);
    let at = |name: &str| folder.path().join(name);
    let report = json(&zstn(
        folder.path(),
        &["compress", "w.bin", "--dtype", "bfloat16", "--json"],
    ));
    assert!(report["packed_bytes"].as_u64().is_some_and(|b| b < 58_000));
    assert!(
        std::fs::read(at("w.bin.z4ai"))
            .unwrap()
            .starts_with(b"Z4AI")
    );
    let out = zstn(folder.path(), &["decompress", "w.bin.z4ai", "-o", "back"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(std::fs::read(at("back")).unwrap() == weights);
    // The derived output name is the original's, which is not replaced.
    assert_eq!(
        zstn(folder.path(), &["decompress", "w.bin.z4ai"])
            .status
            .code(),
        Some(2)
    );
    let out = zstn(
        folder.path(),
        &["decompress", "w.bin.z4ai", "-o", "x", "--limit", "1K"],
    );
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("limit"));
}
