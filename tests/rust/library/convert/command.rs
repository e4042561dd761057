//! Options and messages of the command line.

use std::path::Path;

use zstn_core::dtype::Dtype;
use zstn_tests::cases;
use zstn_tests::command::{text, zstn};

use super::{COMMON, file, folder, listing, model, read, tensor};

fn json(folder: &Path, arguments: &[&str]) -> serde_json::Value {
    let output = zstn(folder, &[arguments, &["--force", "--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// Returns the message for incorrect arguments, which must leave no file.
fn misused(folder: &Path, arguments: &[&str]) -> String {
    let before = listing(folder);
    let output = zstn(folder, arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert_eq!(listing(folder), before);
    text(&output.stderr)
}

#[test]
fn wrong_usage_says_what_to_do() {
    let folder = folder(&model(&COMMON), &[]);
    let misused = |arguments: &[&str]| {
        let arguments = [&["convert", "in.safetensors"], arguments].concat();
        misused(folder.path(), &arguments)
    };
    let lossy = misused(&["out.gauss"]);
    for part in ["--lossy", "0.0005", "1/256"] {
        assert!(lossy.contains(part), "{lossy}");
    }
    assert!(misused(&["out.tensors"]).contains("--to"));
    assert!(misused(&["out.z4dm"]).contains("--base"));
    assert!(misused(&["out.zt", "--to", "onnx"]).contains("compressed-tensors"));
    assert!(misused(&["in.safetensors"]).contains("another name"));
    assert!(misused(&["out.gauss", "--lossy", "--K", "1"]).contains("2 to 255"));
    assert!(misused(&["out.gauss", "--lossy", "--K", "many"]).contains("auto"));
    assert!(misused(&["out.safetensors", "--shard-size", "1G"]).contains("index"));
    assert!(misused(&["out"]).contains("does not name a format"));
    assert!(misused(&[]).contains("-o"));
    for (output, option) in [
        ("out.zt", "--effort=max"),
        ("out.safetensors", "--effort=max"),
        ("out.gauss", "--zstd"),
        ("out.zstn", "--checksum=sha256"),
        ("out.zt", "--format=sparse-bitmask"),
        ("out.zt", "--lossy"),
        ("out/", "--K=4"),
        ("out.zstn", "--layers=a,b"),
    ] {
        let name = option.split('=').next().expect("a name");
        assert!(misused(&[output, option]).contains(name), "{option}");
    }
}

#[test]
fn a_report_for_scripts() {
    let mut truth = model(&COMMON);
    truth.push(tensor("large", Dtype::Bf16, &[300, 200]));
    let folder = folder(&truth, &[("format", "pt"), ("author", "x")]);
    let convert = |arguments: &[&str]| {
        let arguments = [&["convert", "in.safetensors"], arguments].concat();
        json(folder.path(), &arguments)
    };
    let report = convert(&["out.zt", "--zstd", "--checksum", "crc32c"]);
    assert_eq!(report["dropped"], serde_json::json!(["author", "format"]));
    assert_eq!(
        (&report["from"], &report["to"], &report["lossy"]),
        (&"safetensors".into(), &"ztensor".into(), &false.into())
    );
    let len = folder
        .path()
        .join("out.zt")
        .metadata()
        .expect("there")
        .len();
    assert_eq!(report["packed_bytes"], len);
    assert_eq!(report["tensors"], truth.len());
    assert!(read(&folder.path().join("out.zt")).0 == truth);

    let report = convert(&["out.bin", "--to", "zstn", "--effort", "fast"]);
    assert_eq!(report["dropped"], serde_json::json!([]));
    let report = convert(&["s.zstn.index.json", "--shard-size", "100K"]);
    assert_eq!(
        report["files"],
        serde_json::json!([
            "s-00001-of-00002.zstn",
            "s-00002-of-00002.zstn",
            "s.zstn.index.json"
        ])
    );

    let arguments = [
        "out.gauss",
        "--lossy",
        "--K",
        "4",
        "--threads",
        "1",
        "--max-iter",
        "20",
    ];
    let report = convert(&arguments);
    assert_eq!(
        (&report["lossy"], &report["dropped"][0]),
        (&true.into(), &"author".into())
    );
    let tensors = report["gauss"]["tensors"].as_array().expect("a list");
    assert_eq!(tensors.len(), truth.len());
    let large = tensors
        .iter()
        .find(|t| t["name"] == "large")
        .expect("there");
    let error = large["max_error"].as_f64().expect("a number");
    assert!(error > 0.003 && error < 0.006, "{error}");
    assert_eq!(report["gauss"]["max_error"], large["max_error"]);
    assert_eq!(large["shards"][0]["scale"], 128);
    assert_eq!(report["gauss"]["coarse"], serde_json::json!([]));
}

#[test]
fn words_for_people() {
    let mut small = tensor("fine.weight", Dtype::Bf16, &[300, 200]);
    for element in small.bytes.as_chunks_mut().0 {
        let value = half::bf16::from_le_bytes(*element).to_f64() / 50.0;
        *element = half::bf16::from_f64(value).to_le_bytes();
    }
    let truth = [
        small,
        tensor("usual.weight", Dtype::F32, &[200, 300]),
        tensor("bias", Dtype::F32, &[300]),
    ];
    let folder = folder(&truth, &[("format", "pt")]);
    let run = |arguments: &[&str]| {
        let output = zstn(
            folder.path(),
            &[&["convert", "--force"], arguments].concat(),
        );
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(output.stdout.is_empty());
        text(&output.stderr)
    };
    let gauss = run(&[
        "in.safetensors",
        "out.gauss",
        "--lossy",
        "--K",
        "2",
        "--threads",
        "1",
    ]);
    for part in [
        "2 tensors to code (0 sharded), 1 raw, 2 tasks on 1 threads",
        "[   1/2   ] fine.weight",
        "[   2/2   ] usual.weight",
        "[raw] bias",
        "at most, in fine.weight",
        "coarse for 1 of these tensors",
        "dropped: format",
    ] {
        assert!(gauss.contains(part), "no `{part}` in\n{gauss}");
    }
    assert_eq!(run(&["in.safetensors", "out.gauss", "--lossy", "-q"]), "");
    let plain = run(&["in.safetensors", "out.safetensors"]);
    assert_eq!(plain.lines().count(), 1, "{plain}");
    assert!(run(&["in.safetensors", "out/"]).contains("0 tensors are stored sparse"));
}

#[test]
fn keys_of_a_ztensor_file_that_safetensors_has_no_place_for() {
    let custom = cases::read("ztensor", "v01_rs010_custom.zt");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("in.zt"), custom).expect("written");
    let report = json(folder.path(), &["convert", "in.zt", "out.safetensors"]);
    let keys = [
        "answer", "big", "blob", "flag", "nested", "note", "nothing", "pi", "ratio", "tenth",
    ];
    assert_eq!(report["dropped"], serde_json::json!(keys));
    let empty = file(&[], &[("format", "pt")]);
    std::fs::write(folder.path().join("in.safetensors"), empty).expect("written");
    let report = json(
        folder.path(),
        &["convert", "in.safetensors", "b.safetensors"],
    );
    assert_eq!(report["dropped"], serde_json::json!([]));
}
