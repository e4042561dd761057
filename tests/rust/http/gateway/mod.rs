//! `zstn gateway`: how clients see the packed files of a hub or a folder, and the
//! health checks, metrics, access control and shutdown of the gateway.

mod faults;
mod files;
mod folder;
mod permissions;
mod trust;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use zstn::source::HttpOptions;
use zstn::{Engine, Location, Reader};
use zstn_core::container::zstn::pack;
use zstn_core::frame::select::Effort;
use zstn_hub::gateway::Gateway;
use zstn_tests::rng::Rng;
use zstn_tests::stub_hub::{LoggedRequest, Options, RepoId, StubHub};
use zstn_tests::{checkpoint, sha256};

use crate::serve::{Answer, ask, get};

/// A hub with a repository of packed files, and a gateway in front of it.
struct Site {
    hub: StubHub,
    gateway: SocketAddr,
    commit: String,
    /// The files before packing, by name.
    originals: Vec<(&'static str, Vec<u8>)>,
}

const FIRST: &str = "model-00001-of-00002.safetensors";
const SECOND: &str = "model-00002-of-00002.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const WEIGHTS: &str = r#"{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}"#;

fn shard(name: &str, seed: u64) -> Vec<u8> {
    let mut rng = Rng(seed);
    let [large, small] = [400_000, 1000].map(|len| rng.bf16_weights(len));
    checkpoint(&[
        (name, "BF16", &large),
        (&format!("{name}.bias"), "BF16", &small),
    ])
}

fn packed(original: &[u8]) -> Vec<u8> {
    pack(&Engine::new(2).unwrap(), original, Effort::Fast).unwrap()
}

fn model() -> RepoId {
    RepoId::model("me/model")
}

/// Returns short timeouts, so that tests of faults end soon.
fn impatient() -> HttpOptions {
    let mut http = HttpOptions::default();
    http.retries = 1;
    http.first_backoff = Duration::from_millis(10);
    http.idle_timeout = Duration::from_secs(2);
    http
}

/// Returns a gateway that checks every request with the hub.
fn gateway(upstream: &Location) -> Gateway {
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let gateway = Gateway::bind(upstream, any_port, &impatient()).unwrap();
    gateway.with_trust(Duration::ZERO)
}

/// Runs `gateway` until the test process ends. Returns its address.
fn run(gateway: Gateway) -> SocketAddr {
    let url = gateway.url();
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let address = address.parse().unwrap();
    std::thread::spawn(move || gateway.run(|_| ()));
    address
}

fn site_with(options: Options, more: &[(&str, &[u8])]) -> Site {
    let hub = StubHub::start(options).unwrap();
    let originals = vec![
        (FIRST, shard("a", 1)),
        (SECOND, shard("b", 2)),
        (INDEX, WEIGHTS.as_bytes().to_vec()),
        ("config.json", b"{}".to_vec()),
    ];
    let [first, second] = [0, 1].map(|number: usize| packed(&originals[number].1));
    let index = WEIGHTS.replace(".safetensors", ".zstn");
    let files: [(&str, &[u8]); 4] = [
        ("model-00001-of-00002.zstn", &first),
        ("model-00002-of-00002.zstn", &second),
        ("model.zstn.index.json", index.as_bytes()),
        ("config.json", b"{}"),
    ];
    let files: Vec<_> = files.iter().chain(more).copied().collect();
    let commit = hub.add(&model(), &files).unwrap();
    let gateway = run(gateway(&Location::url(hub.url())));
    Site {
        hub,
        gateway,
        commit,
        originals,
    }
}

fn site() -> Site {
    site_with(Options::default(), &[])
}

impl Site {
    fn file(&self, name: &str, headers: &[&str]) -> Answer {
        get(
            self.gateway,
            &format!("/me/model/resolve/main/{name}"),
            headers,
        )
    }

    fn json(&self, path: &str) -> serde_json::Value {
        let answer = get(self.gateway, path, &[]);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// Returns whether the gateway fetched bytes of large files other than the first
    /// byte, which it requests to prove that a client may read the file.
    fn has_fetched(&self) -> bool {
        let is_proof = |request: &LoggedRequest| request.header("range") == Some("bytes=0-0");
        !self.fetched().iter().all(is_proof)
    }

    /// Returns the requests for bytes of large files.
    fn fetched(&self) -> Vec<LoggedRequest> {
        let requests = self.hub.log().into_iter();
        let is_storage = |request: &LoggedRequest| {
            request
                .header("host")
                .is_some_and(|host| host.starts_with("localhost"))
        };
        requests.filter(is_storage).collect()
    }
}

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
