//! Health checks, metrics, access control and shutdown of the gateway.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;

#[test]
fn health_and_figures() {
    let site = site();
    let health = get(site.gateway, "/healthz", &[]);
    assert_eq!((health.status, &*health.text()), (200, "ok\n"));
    assert_eq!(site.file(FIRST, &[]).status, 200);
    assert_eq!(site.file("missing.safetensors", &[]).status, 404);
    let figures = get(site.gateway, "/metrics", &[]).text();
    let sent = format!(
        "zstn_gateway_sent_bytes_total{{route=\"Restored\"}} {}",
        site.originals[0].1.len()
    );
    for line in [
        "zstn_gateway_requests_total{route=\"Restored\",status=\"200\"} 1",
        "zstn_gateway_requests_total{route=\"File\",status=\"404\"} 1",
        "zstn_gateway_opened_files_total 1",
        &sent,
        "# EOF",
    ] {
        assert!(
            figures.lines().any(|found| found == line),
            "{line} in {figures}"
        );
    }
    let upstream = figures
        .lines()
        .find_map(|line| line.strip_prefix("zstn_gateway_upstream_bytes_total "));
    let upstream: usize = upstream.unwrap().parse().unwrap();
    assert!(upstream > 0 && upstream < site.originals[0].1.len());
}

#[test]
fn names_and_origins_are_those_that_are_allowed() {
    let site = site();
    let evil = site.file("config.json", &["Host: evil.example"]);
    assert_eq!(evil.status, 421);
    let page = site.file(FIRST, &["Origin: http://localhost:5173"]);
    assert_eq!(
        page.header("access-control-allow-origin"),
        Some("http://localhost:5173")
    );
    let exposed = page.header("access-control-expose-headers").unwrap();
    assert!(exposed.contains("x-linked-etag"), "{exposed}");
    let foreign = site.file(FIRST, &["Origin: https://evil.example"]);
    assert_eq!(foreign.header("access-control-allow-origin"), None);
    let preflight = ask(
        site.gateway,
        "OPTIONS",
        "/api/models/me/model/paths-info/main",
        &[
            "Origin: http://localhost:5173",
            "Access-Control-Request-Method: POST",
        ],
    );
    assert_eq!(preflight.status, 204);
    let methods = preflight.header("access-control-allow-methods").unwrap();
    assert!(methods.contains("POST"), "{methods}");
}

/// Clients that do not read their answers do not block other clients, and health checks
/// are answered immediately.
#[test]
fn stalled_clients_keep_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("me/model");
    std::fs::create_dir_all(&model).unwrap();
    let file = std::fs::File::create(model.join("large.bin")).unwrap();
    file.set_len(64 << 20).unwrap();
    std::fs::write(model.join("small.bin"), "bytes").unwrap();
    let limits = zstn_serve::Limits {
        connections: 3,
        connections_per_address: 3,
        write: Duration::from_secs(1 << 20),
        give_way: Duration::from_secs(1 << 20),
        ..zstn_serve::Limits::default()
    };
    let stalled = |address| {
        let mut stream = TcpStream::connect(address).unwrap();
        let path = "/me/model/resolve/main/large.bin";
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        stream.read_exact(&mut [0; 1]).unwrap();
        stream
    };
    let upstream = Location::from(folder.path());
    let patient = run(gateway(&upstream).with_limits(limits));
    let _stalled = [(); 3].map(|()| stalled(patient));
    assert_eq!(get(patient, "/healthz", &[]).status, 200);
    let limits = zstn_serve::Limits {
        give_way: Duration::from_millis(200),
        ..limits
    };
    let impatient = run(gateway(&upstream).with_limits(limits));
    let _stalled = [(); 3].map(|()| stalled(impatient));
    let answer = get(impatient, "/me/model/resolve/main/small.bin", &[]);
    assert_eq!(answer.body, b"bytes");
}

/// Answers in progress are completed.
#[test]
fn stopping_waits_for_answers() {
    let site = site();
    let gateway = gateway(&Location::url(site.hub.url()));
    let handle = gateway.handle();
    let url = gateway.url();
    let address: SocketAddr = url["http://".len()..url.len() - 1].parse().unwrap();
    let running = std::thread::spawn(move || gateway.run(|_| ()));
    let mut stream = TcpStream::connect(address).unwrap();
    let path = format!("/me/model/resolve/main/{FIRST}");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut first = [0; 1];
    stream.read_exact(&mut first).unwrap();
    handle.stop();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    let end = rest
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    assert!(rest[end + 4..] == site.originals[0].1);
    running.join().unwrap().unwrap();
    assert!(TcpStream::connect(address).is_err());
}
