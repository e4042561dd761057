//! Control characters in files never reach the terminal.

use zstn_tests::cases;
use zstn_tests::command::{json, text, zstn};

use super::without_elements;
use crate::folder_with;

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
    let head = (header.len() as u64).to_le_bytes();
    let file = [&head, header.as_bytes(), &[1, 2]].concat();
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
        (&["get", "m.zstn", &missing], 1, 1),
        (&["get", "m.zstn", &missing, "--json"], 1, 1),
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
    let file = zstn_tests::checkpoint(&[(HOSTILE, "BF16", &weights)]);
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
        ("lm_head.weight.of.another.model", "in this file"),
    ] {
        let out = zstn(folder.path(), &["get", "m.safetensors", typed]);
        let shown = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1));
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
