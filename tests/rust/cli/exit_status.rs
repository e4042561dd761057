//! The exit status and the error message of every refusal.

use zstn_tests::command::{text, zstn};

use super::{folder_with, vector};

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
            &["pack", "other.safetensors", "-T", "100000"],
            2,
            "too many threads: at most",
        ),
        (
            &[
                "verify",
                "good.zstn",
                "--threads",
                "99999999999999999999999",
            ],
            2,
            "too many threads: at most",
        ),
        (
            &["unpack", "good.zstn", "-T", "-1"],
            2,
            "the number of threads is negative; give 0",
        ),
        (
            &["get", "good.zstn", "nope", "-T", "many"],
            2,
            "a whole number is needed",
        ),
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
