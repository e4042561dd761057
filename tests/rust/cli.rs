//! The command line as its users see it.

use std::process::{Command, Stdio};

use zstn_tests::cases;
use zstn_tests::command::{json, program, text, zstn};
use zstn_tests::rng::Rng;

fn folder_with(name: &str, bytes: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join(name), bytes).expect("written");
    folder
}

fn vector(name: &str) -> Vec<u8> {
    cases::read("zstn", name)
}

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
fn exit_status_and_sentences() {
    let folder = folder_with(
        "page.html",
        b"<!doctype html><title>Not found</title> and more text",
    );
    let at = |name: &str| folder.path().join(name);
    let packed = vector("float_weights.zstn");
    std::fs::write(at("cut.zstn"), &packed[..packed.len() - 1000]).unwrap();
    std::fs::write(at("good.zstn"), &packed).unwrap();
    std::fs::write(at("other.safetensors"), vector("scalars.safetensors")).unwrap();
    std::fs::write(at("frame.z4ai"), b"Z4AI\x01\0\0\x01\x01\0\0\0").unwrap();
    std::fs::write(at("empty"), b"").unwrap();
    for (arguments, status, sentence) in [
        (&["unpack", "cut.zstn", "-o", "x"][..], 1, "looks cut off"),
        (&["ls", "cut.zstn"], 1, "looks cut off"),
        (&["ls", "page.html"], 1, "web page"),
        (&["pack", "page.html"], 1, "web page"),
        (&["info", "empty"], 1, "empty"),
        (&["unpack", "missing.zstn"], 3, "missing.zstn"),
        (
            &["unpack", "other.safetensors", "-o", "x"],
            2,
            "not a packed one",
        ),
        (&["pack", "good.zstn", "-o", "x"], 2, "packed already"),
        (&["get", "good.zstn", "nope"], 1, "no tensor named `nope`"),
        (&["ls", "frame.z4ai"], 1, "decompress it"),
        (
            &["verify", "good.zstn", "--against", "other.safetensors"],
            1,
            "restores",
        ),
        (&["pack"], 2, "Usage"),
        (
            &["pack", "other.safetensors", "--effort", "huge"],
            2,
            "possible values",
        ),
        (
            &["pack", "other.safetensors", "--memory", "lots"],
            2,
            "512M",
        ),
        (
            &["pack", "other.safetensors", "--memory", "1M"],
            2,
            "at least",
        ),
        (
            &["ls", "http://127.0.0.1:9/model.zstn"],
            3,
            "cannot be reached",
        ),
    ] {
        let out = zstn(folder.path(), arguments);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(sentence), "{arguments:?} says: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
    assert!(!at("x").exists(), "a refusal leaves no output");
    let out = zstn(folder.path(), &["ls", "cut.zstn", "--json"]);
    let error: serde_json::Value = serde_json::from_slice(&out.stderr).expect("JSON");
    assert_eq!(error["error"]["kind"], "malformed");
    assert!(
        error["error"]["rule"]
            .as_str()
            .is_some_and(|r| r.starts_with("zstn."))
    );
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
    // Unpacking beside it would replace the original.
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

#[cfg(unix)]
#[test]
fn a_killed_pack_leaves_nothing_under_the_final_name() {
    use std::time::Duration;

    let mut rng = Rng(9);
    let block = rng.bf16_weights(1 << 20);
    let count = 60;
    let len = block.len() * count;
    let header = format!(
        "{{\"w\":{{\"dtype\":\"BF16\",\"shape\":[{}],\"data_offsets\":[0,{len}]}}}}",
        len / 2
    );
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    for _ in 0..count {
        file.extend_from_slice(&block);
    }
    let folder = folder_with("big.safetensors", &file);
    let part = || {
        std::fs::read_dir(folder.path())
            .expect("a folder")
            .flatten()
            .find(|entry| entry.path().extension().is_some_and(|e| e == "part"))
    };
    let mut child = Command::new(program())
        .args([
            "pack",
            "big.safetensors",
            "--memory",
            "64M",
            "--effort",
            "max",
        ])
        .current_dir(folder.path())
        .spawn()
        .expect("zstn runs");
    // In the middle: the head of the output is written, the rest is not.
    while part()
        .and_then(|p| p.metadata().ok())
        .is_none_or(|m| m.len() == 0)
    {
        assert!(
            child.try_wait().expect("status").is_none(),
            "packing was too fast to interrupt"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().expect("killed"); // SIGKILL
    child.wait().expect("ended");
    assert!(!folder.path().join("big.zstn").exists());
    assert!(
        part().is_some(),
        "what was written is still under its own name"
    );
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
        (&["pack", "tuned.z4dm", "-o", "x"], 2, "packed already"),
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
            "missing from the base",
        ),
    ] {
        let out = zstn(folder.path(), arguments);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(sentence), "{arguments:?} says: {said}");
    }
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
        // Kinds go by turns of three.
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
    // The derived name is that of the original, which is not replaced.
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
