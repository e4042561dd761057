//! The output of the command line: bytes for programs, summaries for people, and
//! control characters in files, which never reach the terminal.

#[cfg(unix)]
use zstn_tests::command::zstn_on_terminal;
use zstn_tests::command::{json, text, zstn};
use zstn_tests::{cases, checkpoint, with_header};

use crate::folder_with;

/// Returns a safetensors file of tensors without elements.
pub fn without_elements<'a>(names: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let entry = r#"{"dtype":"U8","shape":[0],"data_offsets":[0,0]}"#;
    let entries = names.map(|name| format!("{}:{entry}", serde_json::Value::from(name)));
    let header = format!("{{{}}}", entries.collect::<Vec<_>>().join(","));
    with_header(header, b"")
}

/// Creates a model with ten rows of two bfloat16 columns.
fn model() -> (tempfile::TempDir, Vec<u8>) {
    let bytes: Vec<u8> = (0..40).collect();
    let header = r#"{"w":{"dtype":"BF16","shape":[10,2],"data_offsets":[0,40]},"f8":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[40,44]}}"#;
    let file = with_header(header, [&bytes[..], &[0; 4]].concat());
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
fn parts_are_selected_on_every_axis() {
    let (folder, bytes) = model();
    let get = |select: &str, more: &[&str]| {
        let arguments = ["get", "m.safetensors", "w", "--select", select];
        zstn(folder.path(), &[&arguments[..], more].concat())
    };
    let elements = |places: &[usize]| -> Vec<u8> {
        let elements = places.iter().flat_map(|place| &bytes[place * 2..][..2]);
        elements.copied().collect()
    };
    for (select, shape, places) in [
        ("2:4,1", "[2]", &[5, 7][..]),
        ("-1,:", "[2]", &[18, 19]),
        ("3,0", "scalar", &[6]),
        ("7..8", "[1, 2]", &[14, 15]),
        (":2,1:", "[2, 1]", &[1, 3]),
        ("5:5,1", "[0]", &[]),
    ] {
        let out = get(select, &[]);
        assert!(out.status.success(), "{select}: {}", text(&out.stderr));
        assert_eq!(out.stdout, elements(places), "{select}");
        let summary = text(&get(select, &["--summary"]).stdout);
        assert!(
            summary.contains(&format!("shape    {shape}\n")),
            "{summary}"
        );
    }
    let described = json(&get("2:4,1", &["--json"]));
    assert_eq!(described["shape"], serde_json::json!([2]));
    // The element between the two is read along.
    assert_eq!(described["fetched_bytes"], 6);
    let columns = get(":,1", &["-o", "part.npy"]);
    assert!(columns.status.success(), "{}", text(&columns.stderr));
    let npy = std::fs::read(folder.path().join("part.npy")).expect("a file");
    assert!(text(&npy).contains("'shape': (10, )"));
    for (select, said) in [
        ("3,2", "axis 1"),
        ("11,0", "axis 0"),
        ("-11", "axis 0"),
        ("0,0,0", "[10, 2]"),
        ("4:2", "4:2"),
        ("1,,0", "\"\""),
        ("a", "\"a\""),
    ] {
        let out = get(select, &[]);
        let shown = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{select}: {shown}");
        assert!(shown.contains(said), "{select}: {shown}");
    }
    assert_eq!(get("1", &["--rows", "1"]).status.code(), Some(2));
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

/// A window title, a colour, a forged line, CSI as a C1 character, DEL, right-to-left
/// overrides, and a line separator.
const HOSTILE: &str = "\x1b]0;title\x07\x1b[31mred\nforged  F32\r\t\u{9b}5m\x7f\u{202e}txet\u{2066}\u{200f}\u{61c}\u{2028}";

/// Removes the characters that the system does not allow in file names. Systems other
/// than Unix do not allow the first 32 characters.
fn possible_name(name: &str) -> String {
    let is_possible = |character: char| cfg!(unix) || character >= ' ';
    name.chars().filter(|&c| is_possible(c)).collect()
}

fn is_unsafe(character: char) -> bool {
    character != '\n'
        && (character.is_control()
            || "\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\
                \u{2066}\u{2067}\u{2068}\u{2069}"
                .contains(character))
}

#[test]
fn names_and_metadata_are_escaped_wherever_they_are_shown() {
    let header = serde_json::json!({
        "__metadata__": { "note": HOSTILE, HOSTILE: "key" },
        HOSTILE: { "dtype": "U8", "shape": [2], "data_offsets": [0, 2] },
    })
    .to_string();
    let file = with_header(header, [1, 2]);
    let folder = folder_with("m.safetensors", &file);
    let missing = format!("{HOSTILE}x");
    let output = possible_name(HOSTILE);
    let file_name = format!("{output}.safetensors");
    std::fs::write(folder.path().join(&file_name), &file).expect("written");
    for (arguments, status, lines) in [
        (&["pack", "m.safetensors"][..], 0, 1),
        (&["ls", "m.safetensors"], 0, 3),
        (&["ls", "m.zstn"], 0, 3),
        (&["info", "m.zstn"], 0, 13),
        (&["info", "m.zstn", "--json"], 0, 1),
        (&["ls", "m.zstn", "--json"], 0, 1),
        (&["get", "m.zstn", HOSTILE, "--summary"], 0, 8),
        (&["get", "m.zstn", HOSTILE, "--json"], 0, 1),
        (&["get", "m.zstn", &missing], 2, 1),
        (&["get", "m.zstn", &missing, "--json"], 2, 1),
        (&["get", "m.zstn", HOSTILE, "--rows", "7..9"], 2, 1),
        (&["get", "m.zstn", HOSTILE, "-o", &output], 0, 1),
        (&["verify", &file_name], 0, 1),
        (&["verify", "m.zstn", "--against", &file_name], 0, 1),
        (&["pack", &file_name, "-o", "other.zstn"], 0, 1),
        (&["info", &file_name], 0, 11),
        (&["ls", &output, "--json"], 1, 1),
        (&["unpack", &missing], 3, 1),
        (&["unpack", &missing, "--json"], 3, 1),
    ] {
        let out = zstn(folder.path(), arguments);
        let shown = text(&out.stdout) + &text(&out.stderr);
        assert_eq!(out.status.code(), Some(status), "{arguments:?}: {shown:?}");
        assert!(!shown.contains(is_unsafe), "{arguments:?}: {shown:?}");
        assert_eq!(shown.lines().count(), lines, "{arguments:?}: {shown}");
        assert!(!shown.contains("\nforged"), "{arguments:?}: {shown}");
    }
    // Unknown arguments on the command line itself.
    let out = zstn(folder.path(), &["ls", "m.zstn", "--colour", HOSTILE]);
    assert_eq!(out.status.code(), Some(2));
    assert!(!text(&out.stderr).contains(is_unsafe));

    let list = json(&zstn(folder.path(), &["ls", "m.zstn", "--json"]));
    assert_eq!(list["tensors"][0]["name"], HOSTILE, "JSON means the same");
    let table = text(&zstn(folder.path(), &["ls", "m.zstn"]).stdout);
    assert!(table.contains(r"\u{1b}[31mred\nforged"), "{table}");
    let raw = zstn(folder.path(), &["get", "m.zstn", HOSTILE]);
    assert_eq!(raw.stdout, [1, 2], "bytes are no text");
}

#[test]
fn conversions_escape_the_names_they_report() {
    let weights = zstn_tests::rng::Rng(5).bf16_weights(40_000);
    let file = checkpoint(&[(HOSTILE, "BF16", &weights)]);
    let folder = folder_with("m.safetensors", &file);
    let out = zstn(
        folder.path(),
        &["convert", "m.safetensors", "m.gauss", "--lossy"],
    );
    let shown = text(&out.stderr);
    assert!(out.status.success(), "{shown}");
    assert!(shown.contains(r"\u{1b}[31mred\nforged"), "{shown}");
    assert!(!shown.contains(is_unsafe), "{shown:?}");
    let info = text(&zstn(folder.path(), &["info", "m.gauss"]).stdout);
    assert!(info.contains(r"\u{1b}[31mred\nforged"), "{info}");
    assert!(!info.contains(is_unsafe), "{info:?}");
}

#[test]
fn names_that_were_mistyped_are_suggested() {
    let folder = folder_with(
        "m.safetensors",
        &without_elements(
            [
                "embeddings.word_embeddings.weight",
                "pooler.dense.bias",
                "h.0.attn",
            ]
            .into_iter(),
        ),
    );
    for (typed, said) in [
        (
            "embeddings.word_embedings.weight",
            "; did you mean `embeddings.word_embeddings.weight`?",
        ),
        ("POOLER.DENSE.BIAS", "; did you mean `pooler.dense.bias`?"),
        ("pooler", "; did you mean `pooler.dense.bias`?"),
        (
            "lm_head.weight.of.another.model",
            "; `zstn ls` lists the names",
        ),
    ] {
        let out = zstn(folder.path(), &["get", "m.safetensors", typed]);
        let shown = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2));
        assert!(shown.trim_end().ends_with(said), "{typed}: {shown}");
    }
    let reader = zstn::Reader::open(folder.path().join("m.safetensors"));
    let error = reader
        .expect("a model")
        .read("h.0.atn")
        .expect_err("no such tensor");
    assert!(
        error.to_string().ends_with("; did you mean `h.0.attn`?"),
        "{error}"
    );
    let refusal = error.refusal().expect("of the core");
    assert_eq!(refusal.kind(), zstn_core::ErrorKind::NotFound);
}

#[test]
fn what_info_counts_of_a_delta_adds_up() {
    let base = cases::read("zstn", "md_all_dtypes.base.safetensors");
    let folder = folder_with("base.safetensors", &base);
    let target = cases::read("zstn", "md_all_dtypes.target.safetensors");
    std::fs::write(folder.path().join("m.safetensors"), target).expect("written");
    let packed = zstn(
        folder.path(),
        &["pack", "m.safetensors", "--base", "base.safetensors"],
    );
    assert!(packed.status.success(), "{}", text(&packed.stderr));
    let info = json(&zstn(folder.path(), &["info", "m.z4dm", "--json"]));
    let count = |key: &str| info[key].as_u64().expect("a number");
    let whole = count("tensors") - count("copied_tensors") - count("differing_tensors");
    assert!(whole > 0);
    let shown = text(&zstn(folder.path(), &["info", "m.z4dm"]).stdout);
    let wanted = format!(
        "{} tensors as in the base, {} as deltas from it, {whole} without it",
        count("copied_tensors"),
        count("differing_tensors")
    );
    assert!(shown.contains(&wanted), "{shown}");
}
