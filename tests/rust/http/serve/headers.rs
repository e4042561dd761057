//! Conditional requests (`If-Match`, `If-None-Match`, `If-Modified-Since` and
//! `If-Range`), and access control by host name and origin.

use std::fs::File;
use std::time::{Duration, SystemTime};

use zstn::Engine;
use zstn_core::container::zstn::pack;
use zstn_core::frame::select::Effort;
use zstn_tests::checkpoint;

use super::{ask, bind, exchange, get, run, serve};

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

#[test]
fn only_names_of_this_machine_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.bin"), "bytes").unwrap();
    let server = serve(folder.path());
    for host in [
        "localhost",
        "LocalHost:8080",
        "localhost.",
        "models.localhost:1",
        "127.0.0.1",
        "127.0.0.1:80",
        "192.168.1.7:8080",
        "[::1]",
        "[::1]:8080",
    ] {
        let answer = get(server, "/a.bin", &[&format!("Host: {host}")]);
        assert_eq!(answer.status, 200, "{host}");
    }
    for host in [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "evillocalhost",
        "127.0.0.1.evil.example",
        "x",
    ] {
        for method in ["GET", "HEAD", "OPTIONS", "POST"] {
            let answer = ask(server, method, "/a.bin", &[&format!("Host: {host}")]);
            assert_eq!(answer.status, 421, "{method} {host}");
        }
        let text = get(server, "/a.bin", &[&format!("Host: {host}")]).text();
        assert!(text.contains("does not accept the host name"), "{text}");
    }
    for host in [
        "",
        "a b",
        "user@localhost",
        "localhost, evil.example",
        "[::1",
    ] {
        let answer = get(server, "/a.bin", &[&format!("Host: {host}")]);
        assert_eq!(answer.status, 400, "{host}");
    }
    let two = get(server, "/a.bin", &["Host: localhost", "Host: localhost"]);
    assert_eq!(two.status, 400);
    for (request, status) in [
        ("GET /a.bin HTTP/1.1\r\nConnection: close\r\n\r\n", 400),
        // No current browser sends HTTP/1.0.
        ("GET /a.bin HTTP/1.0\r\n\r\n", 200),
        (
            "GET http://evil.example/a.bin HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            421,
        ),
        (
            "GET http://localhost/a.bin HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            200,
        ),
    ] {
        assert_eq!(
            exchange(server, request.as_bytes()).status,
            status,
            "{request}"
        );
    }
}

#[test]
fn pages_of_this_machine_may_read_and_others_may_not() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.bin"), "bytes").unwrap();
    let server = serve(folder.path());
    for (origin, is_allowed) in [
        ("http://localhost:5173", true),
        ("https://localhost", true),
        ("http://127.0.0.1:8000", true),
        ("http://[::1]:8000", true),
        ("https://evil.example", false),
        ("http://localhost.evil.example", false),
        ("http://localhost:5173.evil.example", false),
        ("http://127.0.0.1.evil.example", false),
        ("http://192.168.1.7", false),
        ("ftp://localhost", false),
        ("null", false),
        ("http://localhost/path", false),
    ] {
        let header = format!("Origin: {origin}");
        let answer = get(server, "/a.bin", &[&header]);
        assert_eq!(answer.status, 200, "{origin}");
        let allowed = answer.header("access-control-allow-origin");
        assert_eq!(allowed, is_allowed.then_some(origin));
        assert_eq!(answer.header("vary"), Some("Origin"), "{origin}");
        let preflight = ask(
            server,
            "OPTIONS",
            "/a.bin",
            &[
                &header,
                "Access-Control-Request-Method: GET",
                "Access-Control-Request-Headers: range",
                "Access-Control-Request-Private-Network: true",
            ],
        );
        let status = if is_allowed { 204 } else { 403 };
        assert_eq!(preflight.status, status, "{origin}");
        for name in [
            "access-control-allow-origin",
            "access-control-allow-headers",
            "access-control-allow-methods",
            "access-control-allow-private-network",
        ] {
            assert_eq!(
                preflight.header(name).is_some(),
                is_allowed,
                "{origin}, {name}"
            );
        }
        if !is_allowed {
            let text = preflight.text();
            assert!(text.contains("may not read"), "{text}");
        }
    }
    let without = get(server, "/a.bin", &[]);
    assert_eq!(without.header("access-control-allow-origin"), None);
    assert_eq!(without.header("vary"), Some("Origin"));
    // An error response is readable by the same origins as the file.
    let missing = get(server, "/b.bin", &["Origin: http://localhost:1"]);
    assert_eq!(missing.status, 404);
    let allowed = missing.header("access-control-allow-origin");
    assert_eq!(allowed, Some("http://localhost:1"));
}

#[test]
fn other_names_and_origins_can_be_allowed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.bin"), "bytes").unwrap();
    let server = bind(folder.path())
        .with_host("Models.Example")
        .with_origin("https://viewer.example")
        .unwrap();
    let server = run(server);
    for (host, status) in [
        ("models.example:8080", 200),
        ("MODELS.example.", 200),
        ("sub.models.example", 421),
    ] {
        let answer = get(server, "/a.bin", &[&format!("Host: {host}")]);
        assert_eq!(answer.status, status, "{host}");
    }
    for (origin, allowed) in [
        ("https://viewer.example", true),
        ("http://localhost:1", true),
        ("http://viewer.example", false),
        ("https://sub.viewer.example", false),
    ] {
        let answer = get(server, "/a.bin", &[&format!("Origin: {origin}")]);
        let echoed = answer.header("access-control-allow-origin");
        assert_eq!(echoed, allowed.then_some(origin));
    }
    let open = run(bind(folder.path()).with_origin("*").unwrap());
    for headers in [&["Origin: https://any.example"][..], &[]] {
        let answer = get(open, "/a.bin", headers);
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        assert_eq!(answer.header("vary"), None);
    }
    let error = bind(folder.path()).with_origin("viewer.example");
    let error = error.err().unwrap().to_string();
    assert!(error.contains("https://"), "{error}");
}
