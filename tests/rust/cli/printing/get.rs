//! `zstn get`: bytes for programs, and a summary for people.

use zstn_tests::checkpoint;
use zstn_tests::command::{json, text, zstn};
#[cfg(unix)]
use zstn_tests::terminal::zstn_on_terminal;

use crate::folder_with;

/// Creates a model with ten rows of two bfloat16 columns.
fn model() -> (tempfile::TempDir, Vec<u8>) {
    let bytes: Vec<u8> = (0..40).collect();
    let header = r#"{"w":{"dtype":"BF16","shape":[10,2],"data_offsets":[0,40]},"f8":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[40,44]}}"#;
    let head = (header.len() as u64).to_le_bytes();
    let file = [&head, header.as_bytes(), &bytes, &[0; 4]].concat();
    (folder_with("m.safetensors", &file), bytes)
}

#[test]
fn what_is_redirected_is_the_tensor() {
    let (folder, bytes) = model();
    let get = |more: &[&str]| {
        let out = zstn(
            folder.path(),
            &[&["get", "m.safetensors", "w"], more].concat(),
        );
        assert!(out.status.success(), "{more:?}: {}", text(&out.stderr));
        out
    };
    assert_eq!(get(&[]).stdout, bytes);
    assert_eq!(get(&["-o", "-"]).stdout, bytes);
    assert_eq!(get(&["--rows", "2..4"]).stdout, bytes[8..16]);
    let summary = text(&get(&["--summary"]).stdout);
    assert!(
        summary.starts_with("name   w\ndtype  BF16\nshape  [10, 2]\n"),
        "{summary}"
    );
    let described = json(&get(&["--json"]));
    assert_eq!(described["shape"], serde_json::json!([10, 2]));
    assert_eq!(described["original_bytes"], 40);
}

#[cfg(unix)]
#[test]
fn a_terminal_gets_a_summary_and_no_bytes() {
    let (folder, _) = model();
    let (status, shown) = zstn_on_terminal(folder.path(), &["get", "m.safetensors", "w"]);
    assert!(status.success(), "{shown}");
    assert!(shown.starts_with("name   w\r\ndtype  BF16\r\n"), "{shown}");
    let arguments = ["get", "m.safetensors", "w", "-o", "-"];
    let (status, shown) = zstn_on_terminal(folder.path(), &arguments);
    assert_eq!(status.code(), Some(2), "{shown}");
    assert!(
        shown.contains("binary data") && shown.contains("-o"),
        "{shown}"
    );
    assert!(
        !shown.contains(|c: char| c.is_control() && c != '\r' && c != '\n'),
        "{shown:?}"
    );
}

#[test]
fn the_ending_says_what_is_written_or_is_refused() {
    let (folder, bytes) = model();
    let at = |name: &str| folder.path().join(name);
    let get = |name: &str, output: &str| {
        let arguments = ["get", "m.safetensors", name, "-o", output];
        zstn(folder.path(), &arguments)
    };
    for output in ["w", "w.bin", "w.raw", "upper.BIN"] {
        let out = get("w", output);
        assert!(out.status.success(), "{}", text(&out.stderr));
        assert_eq!(std::fs::read(at(output)).expect("written"), bytes);
        assert!(!text(&out.stderr).contains("note"));
    }
    assert!(get("w", "w.safetensors").status.success());
    let read = zstn(folder.path(), &["get", "w.safetensors", "w"]);
    assert_eq!(read.stdout, bytes);
    for output in [
        "w.npz",
        "w.pt",
        "w.csv",
        "w.gguf",
        "w.zstn",
        "layer.0.weight",
    ] {
        let out = get("w", output);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{output}: {said}");
        for ending in [".npy", ".safetensors", ".bin", ".raw"] {
            assert!(said.contains(ending), "{output}: {said}");
        }
        assert!(!at(output).exists());
    }
}

#[test]
fn numpy_files_of_types_that_numpy_lacks() {
    let (folder, bytes) = model();
    let get = |name: &str, output: &str| {
        zstn(folder.path(), &["get", "m.safetensors", name, "-o", output])
    };
    let out = get("w", "w.npy");
    assert!(out.status.success());
    let said = text(&out.stderr);
    assert!(
        said.contains("note: NumPy has no BF16") && said.contains("float32"),
        "{said}"
    );
    let written = std::fs::read(folder.path().join("w.npy")).expect("written");
    assert_eq!(written.len() % 64, 80 % 64);
    let widened: Vec<u8> = bytes.chunks(2).flat_map(|b| [0, 0, b[0], b[1]]).collect();
    assert!(written.ends_with(&widened));
    let out = get("f8", "f8.npy");
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("no dtype for F8_E4M3"));
    assert!(!folder.path().join("f8.npy").exists());
}

#[test]
fn rows_are_written_as_in_rust_or_python() {
    let (folder, bytes) = model();
    let get = |rows: &str| {
        zstn(
            folder.path(),
            &["get", "m.safetensors", "w", "--rows", rows],
        )
    };
    for (rows, range) in [
        ("5", 5..6),
        ("-1", 9..10),
        ("5..7", 5..7),
        ("5:7", 5..7),
        ("-3..", 7..10),
        ("-3:", 7..10),
        ("..-8", 0..2),
        (":2", 0..2),
        ("-4..-2", 6..8),
        ("2:-7", 2..3),
        (":", 0..10),
        ("3..3", 3..3),
    ] {
        let out = get(rows);
        assert!(out.status.success(), "{rows}: {}", text(&out.stderr));
        assert_eq!(out.stdout, bytes[range.start * 4..range.end * 4], "{rows}");
    }
    for (rows, said) in [
        ("10", "10"),
        ("-11", "-11"),
        ("-11..", "-11"),
        ("8..11", "10"),
        ("-2..-3", "-3"),
        ("9..-9", "9..1"),
        ("7..5", "5"),
        ("1:9:2", "row"),
        ("a", "row"),
        ("", "row"),
    ] {
        let out = get(rows);
        let shown = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{rows}: {shown}");
        assert!(shown.contains(said), "{rows}: {shown}");
        assert!(out.stdout.is_empty());
    }
}

#[test]
fn integers_are_exact_in_json() {
    let values = [(1_i64 << 53) + 1, i64::MAX, -1];
    let longs: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    let nans: Vec<u8> = [f32::NAN; 2]
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    let file = checkpoint(&[("i", "I64", &longs), ("n", "F32", &nans)]);
    let folder = folder_with("m.safetensors", &file);
    let get = |name| {
        json(&zstn(
            folder.path(),
            &["get", "m.safetensors", name, "--summary", "--json"],
        ))
    };
    let longs = get("i");
    assert_eq!(longs["first"], serde_json::json!(values));
    assert_eq!(
        (&longs["min"], &longs["max"]),
        (&(-1).into(), &i64::MAX.into())
    );
    let nans = get("n");
    assert_eq!(nans["first"], serde_json::json!([null, null]));
    assert_eq!(nans["max"], serde_json::Value::Null);
}
