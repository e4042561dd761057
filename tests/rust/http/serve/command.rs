//! The command `zstn serve`.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Stdio};

use zstn_tests::command::{text, zstn, zstn_with_signals};

use super::client::get;

/// A running `zstn serve` process.
struct Running {
    child: Child,
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
            child,
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

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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
            let mut stream = std::net::TcpStream::connect(server.address).unwrap();
            write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            let mut byte = [0; 1];
            stream.read_exact(&mut byte).unwrap();
            let id = Pid::from_child(&server.child);
            kill_process(id, signal).unwrap();
            while std::net::TcpStream::connect(server.address).is_ok() {
                std::thread::yield_now();
            }
            let rest = std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
            assert!(rest > 64 << 20, "{verb:?} {signal:?}: {rest}");
            assert_eq!(server.child.wait().unwrap().code(), Some(0), "{verb:?}");
        }
    }
}

/// A program that embeds a server keeps its own handling of signals.
#[cfg(target_os = "linux")]
#[test]
fn the_library_handles_no_signal() {
    let folder = tempfile::tempdir().unwrap();
    let server = super::client::serve(folder.path());
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
