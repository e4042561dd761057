//! The JSON output of commands that run as servers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use zstn_tests::command::program;
use zstn_tests::schema;

/// A process that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server, sends it a request, and checks the lines for its address and for
/// the request against the schema of the command.
fn check(folder: &Path, verb: &str, arguments: &[&str]) {
    let mut child = Command::new(program())
        .args([verb, "--json", "--port", "0"])
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let _running = Running(child);
    let mut line = || -> Value {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{verb}: {line:?}"))
    };
    let listening = line();
    schema::check(verb, &listening);
    let url = listening["url"].as_str().unwrap();
    let (address, path) = url["http://".len()..].split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let path = path.split('#').next().unwrap();
    write!(
        stream,
        "GET /{path} HTTP/1.1\r\nHost: {address}\r\nRange: bytes=0-3\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let request = line();
    schema::check(verb, &request);
    assert_eq!(request["event"], "request", "{verb}");
    assert_eq!(request["method"], "GET", "{verb}");
}

#[test]
fn lines_of_servers_are_as_their_schemas_say() {
    let folder = crate::folder_with("model.zstn", &crate::vector("all_dtypes.zstn"));
    std::fs::create_dir(folder.path().join("page")).unwrap();
    std::fs::write(folder.path().join("page/index.html"), "<!doctype html>").unwrap();
    check(folder.path(), "serve", &[]);
    check(folder.path(), "gateway", &["--upstream", "."]);
    check(
        folder.path(),
        "view",
        &["--no-open", "--page", "page", "model.zstn"],
    );
}
