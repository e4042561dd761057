//! The requests and tensors that `--verbose` reports, and the details that it omits.

use zstn_tests::command::{json, text, zstn};
use zstn_tests::round_server::{Page, RoundServer};

use super::folder_with;

const TOKEN: &str = "hf_a-secret-token";

/// Returns two tensors with the same bytes, and one whose name imitates a log line.
fn model() -> Vec<u8> {
    let weights = zstn_tests::rng::Rng(5).bf16_weights(4000);
    zstn_tests::checkpoint(&[
        ("w", "BF16", &weights),
        ("again", "BF16", &weights),
        ("forged\nerror: \u{1b}[2J", "U8", &[7; 2000]),
    ])
}

#[test]
fn every_tensor_is_a_line_with_its_storage_and_sizes() {
    let folder = folder_with("m.safetensors", &model());
    let said = |arguments: &[&str]| {
        let out = zstn(folder.path(), arguments);
        assert!(out.status.success(), "{}", text(&out.stderr));
        text(&out.stderr)
    };
    let check = |said: &str, from: &str, to: &str| {
        let line = |start: &str| {
            let mut lines = said.lines().filter(|line| line.starts_with(start));
            let line = lines.next().unwrap_or_else(|| panic!("{start} in {said}"));
            assert_eq!(lines.next(), None, "{said}");
            line.to_owned()
        };
        let whole = line("w: BF16 [4000], Z4AI bit-field: sign ");
        assert!(
            whole.contains(", exponent ") && whole.contains(", mantissa "),
            "{whole}"
        );
        assert!(whole.contains(from) && whole.contains(to), "{whole}");
        assert!(whole.ends_with("×)"), "{whole}");
        let alias = line("again: BF16 [4000], the bytes of w: ");
        assert!(alias.contains("0 B") || alias.contains("0 → "), "{alias}");
        assert!(line(r"forged\nerror: \u{1b}[2J: U8 [2000], ").contains("2000"));
        assert!(!said.contains('\u{1b}'), "{said}");
    };
    check(
        &said(&["pack", "-v", "m.safetensors"]),
        ": 8000 → ",
        " B (1.",
    );
    check(&said(&["verify", "-v", "m.zstn"]), " → 8000 B (1.", "");
    let unpack = ["unpack", "--verbose", "m.zstn", "-o", "back", "--json"];
    check(&said(&unpack), " → 8000 B (1.", "");
    let converted = said(&["convert", "-v", "m.zstn", "m.zt"]);
    assert!(converted.contains("w: BF16 [4000], zstn: "), "{converted}");
    let packed = said(&["convert", "-v", "m.zt", "again.zstn"]);
    assert!(
        packed.contains("w: BF16 [4000], Z4AI bit-field: "),
        "{packed}"
    );
    let quiet = said(&["unpack", "m.zstn", "-o", "other"]);
    assert!(!quiet.contains("BF16"), "{quiet}");
}

#[test]
fn tensors_of_a_difference_say_what_they_have_of_the_base() {
    let folder = folder_with("base.safetensors", &model());
    let mut weights = zstn_tests::rng::Rng(5).bf16_weights(4000);
    let copied = weights.clone();
    weights[0] ^= 1;
    let tuned = zstn_tests::checkpoint(&[("w", "BF16", &weights), ("again", "BF16", &copied)]);
    std::fs::write(folder.path().join("m.safetensors"), tuned).unwrap();
    for arguments in [
        &["pack", "-v", "m.safetensors", "--base", "base.safetensors"][..],
        &["verify", "-v", "m.z4dm", "--base", "base.safetensors"],
        &[
            "unpack",
            "-v",
            "m.z4dm",
            "-o",
            "b",
            "--base",
            "base.safetensors",
        ],
    ] {
        let out = zstn(folder.path(), arguments);
        let said = text(&out.stderr);
        assert!(out.status.success(), "{said}");
        let whole = "w: BF16 [4000], Z4DL delta from the base: ";
        assert!(said.contains(whole), "{said}");
        assert!(
            said.contains("again: BF16 [4000], as in the base: "),
            "{said}"
        );
    }
}

#[test]
fn standard_output_stays_the_same() {
    let folder = folder_with("m.safetensors", &model());
    let out = zstn(folder.path(), &["pack", "m.safetensors"]);
    assert!(out.status.success());
    for arguments in [
        &["ls", "m.zstn"][..],
        &["ls", "m.zstn", "--json"],
        &["get", "m.zstn", "w"],
        &["verify", "m.zstn", "--json"],
        &["unpack", "m.zstn", "-c"],
    ] {
        let plain = zstn(folder.path(), arguments);
        let verbose = zstn(folder.path(), &[arguments, &["-v"]].concat());
        assert!(verbose.status.success(), "{}", text(&verbose.stderr));
        assert!(verbose.stdout == plain.stdout, "{arguments:?}");
    }
}

#[test]
fn quiet_and_verbose_exclude_each_other() {
    let folder = folder_with("m.safetensors", &model());
    for verb in [
        "pack",
        "unpack",
        "verify",
        "ls",
        "sketch",
        "compress",
        "decompress",
    ] {
        for arguments in [&["-q", "-v"][..], &["--verbose", "--quiet", "--json"]] {
            let out = zstn(
                folder.path(),
                &[&[verb, "m.safetensors"], arguments].concat(),
            );
            let said = text(&out.stderr);
            assert_eq!(out.status.code(), Some(2), "{verb}: {said}");
            assert!(said.contains("cannot be used with"), "{verb}: {said}");
        }
    }
}

#[test]
fn requests_are_said_without_tokens_and_queries() {
    let folder = folder_with("m.safetensors", &model());
    assert!(
        zstn(folder.path(), &["pack", "m.safetensors"])
            .status
            .success()
    );
    let packed = std::fs::read(folder.path().join("m.zstn")).unwrap();
    let (home, away) = (RoundServer::start(), RoundServer::start());
    let signed = away.add("blobs/m", Page::File(packed)) + "?X-Signature=a-signed-query";
    home.add("a/m.zstn", Page::Redirect(signed));
    let host = |server: &RoundServer| {
        let url = server.url.trim_start_matches("http://");
        url.trim_end_matches('/').to_owned()
    };
    home.demand(&format!("Bearer {TOKEN}"));
    let url = format!(
        "http://user:a-password@{}/a/m.zstn?key=a-signed-query",
        host(&home)
    );
    let header = format!("Authorization: Bearer {TOKEN}");
    for verb in [
        &["ls"][..],
        &["verify"],
        &["get", "w"],
        &["unpack", "-c"],
        &["ls", "--json"],
    ] {
        let (name, more) = verb.split_first().unwrap();
        let arguments = [&[*name, &url], more, &["-v", "--header", &header]].concat();
        let out = zstn(folder.path(), &arguments);
        let said = text(&out.stderr);
        assert!(out.status.success(), "{said}");
        let requests: Vec<&str> = said
            .lines()
            .filter(|line| line.starts_with("GET "))
            .collect();
        assert!(!requests.is_empty(), "{said}");
        for line in &requests {
            for secret in [TOKEN, "Bearer", "a-signed-query", "a-password", "?"] {
                assert!(!line.contains(secret), "{secret}: {line}");
            }
            assert!(line.ends_with(" ms"), "{line}");
        }
        assert!(!said.contains(TOKEN), "{said}");
        let found = |start: String, middle: &str| {
            requests
                .iter()
                .any(|line| line.starts_with(&start) && line.contains(middle))
        };
        assert!(
            found(format!("GET {}/a/m.zstn", host(&home)), ": 302, 0 B, "),
            "{said}"
        );
        assert!(
            found(format!("GET {}/blobs/m", host(&away)), " bytes=0-"),
            "{said}"
        );
    }
}

#[test]
fn repeated_requests_are_counted() {
    let server = RoundServer::start();
    let url = server.add(
        "m.zstn",
        Page::Answer("503 Service Unavailable", Vec::new()),
    );
    let folder = tempfile::tempdir().unwrap();
    let out = zstn(folder.path(), &["ls", &url, "-v", "--retries", "1"]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(3), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines[0].contains(": 503, 0 B, ") && lines[0].ends_with(" ms"),
        "{said}"
    );
    assert!(lines[1].ends_with(" ms, attempt 2"), "{said}");
    // No server listens on this port.
    let out = zstn(
        folder.path(),
        &["ls", "http://127.0.0.1:9/m.zstn", "-v", "--retries", "0"],
    );
    let said = text(&out.stderr);
    assert!(
        said.starts_with("GET 127.0.0.1:9/m.zstn bytes=0-"),
        "{said}"
    );
    assert!(said.contains(": no answer, 0 B, "), "{said}");
}

#[test]
fn the_choice_of_a_base_is_said_next_to_json() {
    let folder = folder_with("m.safetensors", &model());
    let family = folder.path().join("family");
    std::fs::create_dir(&family).unwrap();
    std::fs::write(family.join("first.safetensors"), model()).unwrap();
    let auto = ["--base", "auto", "--family", "family", "--json", "-v"];
    let out = zstn(
        folder.path(),
        &[&["pack", "m.safetensors"], &auto[..]].concat(),
    );
    let said = text(&out.stderr);
    assert!(out.status.success(), "{said}");
    assert!(json(&out)["family"]["candidates"] == 1);
    assert!(
        said.contains("first.safetensors is the nearest of 1 checkpoint"),
        "{said}"
    );
    assert!(said.contains("expects "), "{said}");
}

#[cfg(unix)]
#[test]
fn a_bar_does_not_tear_the_lines() {
    use zstn_tests::command::zstn_on_terminal;

    let folder = folder_with("m.safetensors", &model());
    let (status, shown) = zstn_on_terminal(folder.path(), &["pack", "-v", "m.safetensors"]);
    assert!(status.success(), "{shown}");
    let start = "w: BF16 [4000], Z4AI bit-field: ";
    let mut lines = shown.split("\r\n").filter(|line| line.contains(start));
    let line = lines.next().unwrap_or_else(|| panic!("{shown:?}"));
    // Nothing precedes the line except sequences that clear the progress bar.
    let (before, _) = line.split_once(start).unwrap();
    assert!(
        before.is_empty() || before.ends_with(['K', 'J', '\r']),
        "{before:?}"
    );
    assert!(line.ends_with("×)"), "{line:?}");
}
