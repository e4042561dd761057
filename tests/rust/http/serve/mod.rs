//! `zstn serve`: the command, and its answers, access rules and memory use. The servers
//! under test are started here, and raw requests are sent to them.

mod connections;
mod folders;
mod headers;
mod links;
mod unpacked;
#[cfg(unix)]
mod view;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;

use zstn_serve::Server;
use zstn_tests::command::{KillOnDrop, text, zstn, zstn_with_signals};

/// Creates a server for `folder` on a free port.
pub fn bind(folder: &Path) -> Server {
    Server::bind(folder, SocketAddr::from(([127, 0, 0, 1], 0))).unwrap()
}

/// Returns the address that `server` listens on.
pub fn address(server: &Server) -> SocketAddr {
    let url = server.url();
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    address.parse().unwrap()
}

/// Runs `server` until the test process ends. Returns its address.
pub fn run(server: Server) -> SocketAddr {
    let address = address(&server);
    std::thread::spawn(move || server.run(|_| ()));
    address
}

/// Serves `folder` until the test process ends. Returns the address.
pub fn serve(folder: &Path) -> SocketAddr {
    run(bind(folder).with_cache(1 << 20))
}

pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers(name).next()
    }

    /// Returns all values of a header that may occur several times.
    pub fn headers<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.head.lines().filter_map(move |line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// Returns whether the body has the length that the head states.
    pub fn is_complete(&self) -> bool {
        self.header("content-length") == Some(self.body.len().to_string().as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Returns whether a content security policy allows no inline scripts and styles.
pub fn is_strict_policy(policy: &str) -> bool {
    policy.contains("default-src 'none'") && !policy.contains("unsafe-inline")
}

/// Sends exactly these bytes and reads until the server closes or resets the
/// connection.
pub fn exchange(server: SocketAddr, request: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let body = answer.split_off(end.expect("a head") + 4);
    let head = String::from_utf8(answer).unwrap();
    Answer {
        status: head[9..12].parse().unwrap(),
        head,
        body,
    }
}

/// Sends a request for the host `localhost`, unless `headers` contain another `Host`.
pub fn ask(server: SocketAddr, method: &str, path: &str, headers: &[&str]) -> Answer {
    let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|header| header.starts_with("Host:")) {
        request += "Host: localhost\r\n";
    }
    for header in headers {
        request += header;
        request += "\r\n";
    }
    exchange(server, (request + "\r\n").as_bytes())
}

pub fn get(server: SocketAddr, path: &str, headers: &[&str]) -> Answer {
    ask(server, "GET", path, headers)
}

/// A running `zstn serve` process.
struct Running {
    child: KillOnDrop,
    output: BufReader<std::process::ChildStdout>,
    address: SocketAddr,
}

impl Running {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        Self::of(&["serve"], folder, arguments)
    }

    fn of(verb: &[&str], folder: &Path, arguments: &[&str]) -> Self {
        let mut child = zstn_with_signals()
            .args(verb)
            .args(["--port", "0"])
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let url = line.split("http://").nth(1).unwrap();
        let address = url.split('/').next().unwrap().parse().unwrap();
        Self {
            child: KillOnDrop(child),
            output,
            address,
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }
}

#[test]
fn it_serves_the_folder_it_is_in_and_logs_what_it_answers() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.bin"), vec![7; 12_345]).unwrap();
    let mut server = Running::start(folder.path(), &[]);
    assert_eq!(get(server.address, "/a.bin", &[]).body, [7; 12_345]);
    assert_eq!(server.line(), "200 GET   12.3 kB  /a.bin\n");
    // These bytes are terminal control sequences: the CSI character, raw and in UTF-8.
    let range = "Range: bytes=0-1\u{9b}31m";
    get(server.address, "/\u{9b}31m\u{202e}", &[range]);
    let line = server.line();
    assert!(line.contains("/\\u{9b}31m\\u{202e}"), "{line}");
    assert!(!line.trim_end().contains(char::is_control), "{line:?}");

    let mut server = Running::start(folder.path(), &["--json", "--host", "localhost"]);
    get(
        server.address,
        "/a.bin",
        &["Origin: https://viewer.example"],
    );
    let line: serde_json::Value = serde_json::from_str(&server.line()).unwrap();
    assert_eq!(
        (&line["status"], &line["bytes"]),
        (&200.into(), &12_345.into())
    );
    let note = line["note"].as_str().unwrap();
    assert!(note.contains("--cors https://viewer.example"), "{note}");
}

/// Every signal that requests termination lets answers in progress complete.
#[cfg(unix)]
#[test]
fn signals_end_it_with_grace() {
    use std::io::{Read, Write};

    use rustix::process::{Pid, Signal, kill_process};

    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("me/model");
    std::fs::create_dir_all(&model).unwrap();
    let file = std::fs::File::create(model.join("large.bin")).unwrap();
    file.set_len(64 << 20).unwrap();
    for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
        for (verb, path) in [
            (&["serve"][..], "/me/model/large.bin"),
            (
                &["gateway", "--upstream", "."],
                "/me/model/resolve/main/large.bin",
            ),
        ] {
            let mut server = Running::of(verb, folder.path(), &[]);
            let mut stream = TcpStream::connect(server.address).unwrap();
            write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            let mut byte = [0; 1];
            stream.read_exact(&mut byte).unwrap();
            let id = Pid::from_child(&server.child.0);
            kill_process(id, signal).unwrap();
            while TcpStream::connect(server.address).is_ok() {
                std::thread::yield_now();
            }
            let rest = std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
            assert!(rest > 64 << 20, "{verb:?} {signal:?}: {rest}");
            assert_eq!(server.child.0.wait().unwrap().code(), Some(0), "{verb:?}");
        }
    }
}

/// A program that embeds a server keeps its own handling of signals.
#[cfg(target_os = "linux")]
#[test]
fn the_library_handles_no_signal() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let upstream = zstn::Location::from(folder.path());
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let gateway =
        zstn_hub::gateway::Gateway::bind(&upstream, any_port, &Default::default()).unwrap();
    let url = gateway.url();
    let address = url["http://".len()..url.len() - 1].parse().unwrap();
    std::thread::spawn(move || gateway.run(|_| ()));
    assert_eq!(get(server, "/", &[]).status, 200);
    assert_eq!(get(address, "/healthz", &[]).status, 200);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let caught = status
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:"))
        .unwrap();
    let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
    // SIGHUP, SIGINT and SIGTERM.
    for signal in [1, 2, 15] {
        assert_eq!(caught >> (signal - 1) & 1, 0, "signal {signal}");
    }
}

#[test]
fn options_open_what_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let (served, shared) = (folder.path().join("served"), folder.path().join("shared"));
    for folder in [&served, &shared] {
        std::fs::create_dir(folder).unwrap();
    }
    std::fs::write(shared.join("a.bin"), "bytes").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("../shared/a.bin", served.join("a.bin")).unwrap();
    #[cfg(not(unix))]
    std::fs::copy(shared.join("a.bin"), served.join("a.bin")).unwrap();
    let server = Running::start(
        &served,
        &[
            "--follow-links-in",
            "../shared",
            "--allow-host",
            "models.example",
            "--cors",
            "https://viewer.example",
            "--cors",
            "https://other.example",
        ],
    );
    let origin = "Origin: https://viewer.example";
    let answer = get(server.address, "/a.bin", &["Host: models.example", origin]);
    assert_eq!((answer.status, &answer.body[..]), (200, &b"bytes"[..]));
    let allowed = answer.header("access-control-allow-origin");
    assert_eq!(allowed, Some("https://viewer.example"));
}

#[test]
fn what_cannot_be_served_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.bin"), "bytes").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (arguments, status, sentences) in [
        (&["nope"][..], 3, &["folder nope"][..]),
        (&["a.bin"], 2, &["a.bin is a file", "folder it is in: ."]),
        (&["--port", &port], 3, &["in use", "port 0", &port]),
        (&["--cors", "viewer.example"], 2, &["https://example.org"]),
        (&["--follow-links-in", "nope"], 3, &["nope"]),
    ] {
        let mut all = vec!["serve"];
        if !arguments.contains(&"--port") {
            all.extend(["--port", "0"]);
        }
        all.extend(arguments);
        let output = zstn(folder.path(), &all);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{message}");
        for sentence in sentences {
            assert!(message.contains(sentence), "{message}");
        }
    }
}
