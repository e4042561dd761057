//! Certificates and proxies: the same policy applies to every type of address.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use zstn_tests::command::{program, text};
use zstn_tests::repository;
use zstn_tests::round_server::{Page, RoundServer};

/// Environment variables that must not influence the tests.
const VARIABLES: [&str; 10] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Runs a command without retries.
pub fn run(arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    run_as_given(&[arguments, &["--retries", "0"]].concat(), variables)
}

fn run_as_given(arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = Command::new(program());
    for name in VARIABLES {
        command.env_remove(name);
    }
    let out = command
        .args(arguments)
        .envs(variables.iter().copied())
        .current_dir(scratch.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (out.status.code(), text(&out.stderr) + &text(&out.stdout))
}

pub fn model() -> Vec<u8> {
    zstn_tests::checkpoint(&[("w", "U8", &[7; 2000])])
}

/// Reads the head of a request, and returns its lines.
pub fn head(from: &mut impl Read) -> Option<Vec<String>> {
    let lines = BufReader::with_capacity(1, from).lines();
    let lines: Vec<String> = lines
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
        .collect();
    (!lines.is_empty()).then_some(lines)
}

/// Answers one request with a range of the model.
fn answer(to: &mut impl Write, lines: &[String]) -> Option<()> {
    let model = model();
    let range = lines.iter().find_map(|line| {
        let line = line.to_ascii_lowercase();
        let (first, last) = line.strip_prefix("range: bytes=")?.split_once('-')?;
        Some(first.parse::<usize>().ok()?..last.parse::<usize>().ok()? + 1)
    });
    let range = range.unwrap_or(0..model.len());
    let range = range.start..range.end.min(model.len());
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {}-{}/{}\r\nContent-Length: {}\r\n\
         ETag: \"1\"\r\nConnection: close\r\n\r\n",
        range.start,
        range.end - 1,
        model.len(),
        range.len()
    );
    to.write_all(&[head.as_bytes(), &model[range]].concat())
        .ok()
}

fn certificates(name: &str) -> PathBuf {
    repository().join("tests/tls").join(name)
}

/// Starts a server with a certificate that no system trusts. Returns its port.
fn start_tls() -> u16 {
    let chain = CertificateDer::from_pem_file(certificates("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(certificates("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            thread::spawn(move || {
                let mut stream = StreamOwned::new(connection, stream);
                let lines = head(&mut stream)?;
                answer(&mut stream, &lines)?;
                stream.conn.send_close_notify();
                stream.flush().ok()
            });
        }
    });
    port
}

#[test]
fn one_set_of_certificates_for_every_kind_of_address() {
    let port = start_tls();
    let server = format!("https://localhost:{port}");
    let authority = certificates("authority.pem").display().to_string();
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(&authority, folder.path().join("5ed36f99.0")).unwrap();
    let folder = folder.path().display().to_string();
    let web = format!("{server}/m.safetensors");
    for address in [&*web, "hf://o/n/m.safetensors", "s3://b/m.safetensors"] {
        let ls = |options: &[&str], variables: &[(&str, &str)]| {
            let common = [
                ("HF_ENDPOINT", &*server),
                ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"),
                ("AWS_ENDPOINT_URL", &*server),
                ("AWS_SKIP_SIGNATURE", "true"),
                ("AWS_REGION", "r"),
            ];
            run(
                &[&["ls", address], options].concat(),
                &[&common, variables].concat(),
            )
        };
        let (status, said) = ls(&[], &[]);
        assert_eq!(status, Some(3), "{address}: {said}");
        assert!(said.contains("SSL_CERT_FILE"), "{address}: {said}");
        for (options, variables) in [
            (&[][..], &[("SSL_CERT_FILE", &*authority)][..]),
            (&[], &[("SSL_CERT_DIR", &folder)]),
            (&["--ca-certificate", &authority], &[]),
            (
                &["--ca-certificate", &authority],
                &[("SSL_CERT_FILE", "/missing")],
            ),
        ] {
            let (status, said) = ls(options, variables);
            assert_eq!(
                status,
                Some(0),
                "{address} {options:?} {variables:?}: {said}"
            );
        }
        // If the variable names a missing file, the message contains its path.
        let (status, said) = ls(&[], &[("SSL_CERT_FILE", "/missing")]);
        assert_eq!(status, Some(3), "{address}: {said}");
        assert!(said.contains("/missing"), "{address}: {said}");
    }
    for wrong in [
        "/missing",
        &certificates("server.key").display().to_string(),
    ] {
        for verb in [
            &["ls", &*web][..],
            &["gateway", "--port", "0"],
            &["worker", "--plan", "plan.jsonl", "--to", "packed"],
            &["lfs", "install"],
            &["lfs", "agent"],
        ] {
            let arguments = [verb, &["--ca-certificate", wrong]].concat();
            let (status, said) = run_as_given(&arguments, &[]);
            assert!(matches!(status, Some(2 | 3)), "{verb:?}: {said}");
            assert!(said.contains(wrong), "{verb:?}: {said}");
        }
    }
}

/// Starts a proxy that answers requests for http URLs itself, and connects other
/// requests to `port`. Returns its port and the heads of all requests.
fn start_proxy(port: u16) -> (u16, Arc<Mutex<Vec<Vec<String>>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    let log: Arc<Mutex<Vec<Vec<String>>>> = Arc::default();
    let heads = Arc::clone(&log);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let heads = Arc::clone(&heads);
            thread::spawn(move || pass(stream, port, &heads));
        }
    });
    (own, log)
}

fn pass(mut stream: TcpStream, port: u16, heads: &Mutex<Vec<Vec<String>>>) -> Option<()> {
    let lines = head(&mut stream)?;
    let is_tunnel = lines[0].starts_with("CONNECT ");
    heads.lock().unwrap().push(lines.clone());
    if !is_tunnel {
        return answer(&mut stream, &lines);
    }
    let target = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
    let (mut from, mut to) = (stream.try_clone().ok()?, target.try_clone().ok()?);
    thread::spawn(move || std::io::copy(&mut from, &mut to));
    std::io::copy(&mut &target, &mut stream).ok()?;
    stream.shutdown(std::net::Shutdown::Both).ok()
}

#[test]
fn proxies_receive_what_is_for_them() {
    let tls = start_tls();
    let (port, log) = start_proxy(tls);
    let proxy = format!("http://user:pass%40word@127.0.0.1:{port}");
    let authority = certificates("authority.pem").display().to_string();
    let store = [
        ("AWS_ENDPOINT_URL", "http://store.example"),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_SKIP_SIGNATURE", "true"),
        ("AWS_REGION", "r"),
    ];
    let secure = format!("https://localhost:{tls}/m.safetensors");
    let tunnel = format!("CONNECT localhost:{tls} HTTP/1.1");
    for (address, variable, line) in [
        // The proxy gets the whole URL of an http address.
        (
            "http://h.example/m.safetensors?x=1",
            "http_proxy",
            "GET http://h.example/m.safetensors?x=1 HTTP/1.1",
        ),
        (
            "http://h.example:81/ü m",
            "HTTP_PROXY",
            "GET http://h.example:81/%C3%BC%20m HTTP/1.1",
        ),
        (
            "http://bücher.example/m",
            "ALL_PROXY",
            "GET http://xn--bcher-kva.example/m HTTP/1.1",
        ),
        (
            "hf://o/n/m",
            "http_proxy",
            "GET http://hub.example/o/n/resolve/main/m HTTP/1.1",
        ),
        (
            "s3://b/m",
            "http_proxy",
            "GET http://store.example/b/m HTTP/1.1",
        ),
        (&secure, "https_proxy", &tunnel),
    ] {
        log.lock().unwrap().clear();
        let more = [
            (variable, &*proxy),
            ("SSL_CERT_FILE", &*authority),
            ("HF_ENDPOINT", "http://hub.example"),
            ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"),
        ];
        let (status, said) = run(&["ls", address], &[&store, &more[..]].concat());
        assert_eq!(status, Some(0), "{address}: {said}");
        let heads = log.lock().unwrap().clone();
        assert_eq!(heads[0][0], line, "{address}");
        let has = |wanted: &str| {
            heads[0]
                .iter()
                .any(|line| line.eq_ignore_ascii_case(wanted))
        };
        assert!(
            has("Proxy-Authorization: Basic dXNlcjpwYXNzQHdvcmQ="),
            "{:?}",
            heads[0]
        );
        let host = line.split(' ').nth(1).unwrap();
        let host = host
            .trim_start_matches("http://")
            .split('/')
            .next()
            .unwrap();
        assert!(has(&format!("Host: {host}")), "{:?}", heads[0]);
    }
}

#[test]
fn targets_in_no_proxy_are_asked_directly() {
    let server = RoundServer::start();
    let web = server.add("m.safetensors", Page::File(model()));
    let (port, log) = start_proxy(9);
    let proxy = format!("http://127.0.0.1:{port}");
    for (list, is_direct) in [
        ("127.0.0.0/8", true),
        ("10.0.0.0/8, 127.0.0.1", true),
        ("*", true),
        ("10.0.0.0/8", false),
        ("", false),
    ] {
        log.lock().unwrap().clear();
        let variables = [("HTTP_PROXY", &*proxy), ("NO_PROXY", list)];
        let (status, said) = run(&["ls", &web], &variables);
        assert_eq!(status, Some(0), "{list}: {said}");
        assert_eq!(log.lock().unwrap().is_empty(), is_direct, "{list}");
    }
}

#[test]
fn a_wrong_proxy_is_reported_as_that() {
    let store = [
        ("AWS_ENDPOINT_URL", "http://store.example"),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_SKIP_SIGNATURE", "true"),
        ("AWS_REGION", "r"),
        ("HF_ENDPOINT", "https://hub.example"),
    ];
    for address in [
        "http://h.example/m",
        "https://h.example/m",
        "hf://o/n/m",
        "s3://b/m",
    ] {
        for (proxy, words) in [
            (
                "http://user:secret@127.0.0.1:9",
                "the proxy http://127.0.0.1:9 (from ALL_PROXY)",
            ),
            ("http://user:secret@h:port", "ALL_PROXY"),
            ("socks5://user:secret@127.0.0.1:9", "SOCKS"),
        ] {
            let variables = [&store[..], &[("ALL_PROXY", proxy)]].concat();
            let (status, said) = run(&["ls", address], &variables);
            assert!(matches!(status, Some(2 | 3)), "{address} {proxy}: {said}");
            assert!(said.contains(words), "{address} {proxy}: {said}");
            assert!(!said.contains("secret"), "{address} {proxy}: {said}");
        }
    }
}
