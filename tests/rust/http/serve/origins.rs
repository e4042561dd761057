//! Access control by host name and origin.

use super::client::{ask, bind, exchange, get, run, serve};

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
