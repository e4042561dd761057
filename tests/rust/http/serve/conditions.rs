//! Conditional requests.

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
    // 4 October 2023, 10:40:00 and half a second.
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
        ] {
            let answer = get(server, path, &["Range: bytes=0-7", &condition]);
            assert_eq!(answer.status, status, "{path}, {condition}");
            let is_part = answer.body == original[..8];
            assert_eq!(is_part, status == 206, "{path}, {condition}");
            let head = ask(server, "HEAD", path, &[&condition]);
            let expected = if status == 206 { 200 } else { 412 };
            assert_eq!(head.status, expected, "HEAD {path}, {condition}");
        }
        // If-Match decides before the others are looked at.
        let both = [
            &*format!("If-Match: {tag}"),
            "If-Unmodified-Since: Wed, 04 Oct 2023 10:39:59 GMT",
        ];
        assert_eq!(get(server, path, &both).status, 200);
        let both = ["If-Match: \"other\"", &*format!("If-None-Match: {tag}")];
        assert_eq!(get(server, path, &both).status, 412);
    }
}
