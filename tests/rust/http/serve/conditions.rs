//! Conditional requests: `If-Match`, `If-None-Match`, `If-Modified-Since` and
//! `If-Range`.

use std::fs::File;
use std::time::{Duration, SystemTime};

use zstn::Engine;
use zstn_core::container::zstn::pack;
use zstn_core::frame::select::Effort;
use zstn_tests::checkpoint;

use super::client::{ask, get, serve};

#[test]
fn a_request_for_another_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let original = checkpoint(&[("a", "U8", &[7; 100])]);
    let packed = pack(&Engine::new(1).unwrap(), &original, Effort::Fast).unwrap();
    // 4 October 2023, 10:40:00.5 UTC.
    let changed = SystemTime::UNIX_EPOCH + Duration::from_millis(1_696_416_000_500);
    for (name, bytes) in [("plain.bin", &original), ("m.zstn", &packed)] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        File::options()
            .append(true)
            .open(path)
            .and_then(|file| file.set_modified(changed))
            .unwrap();
    }
    let server = serve(folder.path());
    for path in ["/plain.bin", "/m.safetensors"] {
        let tag = get(server, path, &[]).header("etag").unwrap().to_owned();
        for (condition, status) in [
            (format!("If-Match: {tag}"), 206),
            (format!("If-Match: \"other\", {tag}"), 206),
            ("If-Match: *".into(), 206),
            ("If-Match: \"other\"".into(), 412),
            (format!("If-Match: W/{tag}"), 412),
            ("If-Match: not a tag".into(), 412),
            (
                "If-Unmodified-Since: Wed, 04 Oct 2023 10:40:00 GMT".into(),
                206,
            ),
            (
                "If-Unmodified-Since: Wed, 04 Oct 2023 10:39:59 GMT".into(),
                412,
            ),
            ("If-Unmodified-Since: yesterday".into(), 206),
            (format!("If-None-Match: {tag}"), 304),
            (format!("If-None-Match: \"other\", W/{tag}"), 304),
            ("If-None-Match: *".into(), 304),
            (format!("If-None-Match: \"a b, c\",,{tag}"), 304),
            ("If-None-Match: \"a b\"".into(), 206),
            ("If-None-Match: \"a".into(), 206),
            ("If-Match: W/\"a b\"".into(), 412),
            ("If-None-Match: \"other\"".into(), 206),
            (
                "If-Modified-Since: Wed, 04 Oct 2023 10:40:00 GMT".into(),
                304,
            ),
            (
                "If-Modified-Since: Wed, 04 Oct 2023 10:39:59 GMT".into(),
                206,
            ),
            ("If-Modified-Since: yesterday".into(), 206),
            (format!("If-Range: {tag}"), 206),
            (format!("If-Range: W/{tag}"), 200),
            ("If-Range: \"other\"".into(), 200),
            (format!("If-Range: {tag}, {tag}"), 200),
            (format!("If-Range: {tag}\r\nIf-Range: {tag}"), 200),
            ("If-Range: Wed, 04 Oct 2023 10:40:00 GMT".into(), 206),
            ("If-Range: Wed, 04 Oct 2023 10:40:01 GMT".into(), 200),
            ("If-Range: Wed, 04 Oct 2023 10:39:59 GMT".into(), 200),
            ("If-Range: yesterday".into(), 200),
            ("If-Range:".into(), 200),
        ] {
            let answer = get(server, path, &["Range: bytes=0-7", &condition]);
            assert_eq!(answer.status, status, "{path}, {condition}");
            let is_part = answer.body == original[..8];
            assert_eq!(is_part, status == 206, "{path}, {condition}");
            // A HEAD request ignores ranges.
            for range in [&["Range: bytes=0-7", &*condition][..], &[&condition]] {
                let head = ask(server, "HEAD", path, range);
                let expected = if status == 206 { 200 } else { status };
                assert_eq!(head.status, expected, "HEAD {path}, {condition}");
            }
        }
        // `If-Match` is evaluated before the other conditions.
        let both = [
            &*format!("If-Match: {tag}"),
            "If-Unmodified-Since: Wed, 04 Oct 2023 10:39:59 GMT",
        ];
        assert_eq!(get(server, path, &both).status, 200);
        let both = ["If-Match: \"other\"", &*format!("If-None-Match: {tag}")];
        assert_eq!(get(server, path, &both).status, 412);
    }
}

/// A file that was modified just now can change again within the same second.
#[test]
fn a_date_of_this_moment_is_no_version() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.bin"), [7; 100]).unwrap();
    let soon = SystemTime::now() + Duration::from_secs(3600);
    let file = File::options()
        .append(true)
        .open(folder.path().join("a.bin"));
    file.and_then(|file| file.set_modified(soon)).unwrap();
    let server = serve(folder.path());
    let date = get(server, "/a.bin", &[]);
    let condition = format!("If-Range: {}", date.header("last-modified").unwrap());
    let answer = get(server, "/a.bin", &["Range: bytes=0-7", &condition]);
    assert_eq!((answer.status, answer.body.len()), (200, 100));
}

#[test]
fn paths_have_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let path = |len: usize| format!("/{}", "a".repeat(len - 1));
    assert_eq!(get(server, &path(4096), &[]).status, 404);
    assert_eq!(get(server, &path(4097), &[]).status, 414);
}
