//! `zstn view` serves the viewer and the models only to the browser of this machine.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use zstn_tests::command::{KillOnDrop, text, zstn, zstn_with_signals};

use super::{Answer, ask, get, is_strict_policy};

/// A running `zstn view` process that serves the viewer in `page`.
struct Running {
    child: KillOnDrop,
    address: SocketAddr,
    /// The path that contains the secret, with a trailing slash.
    root: String,
}

impl Running {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut child = zstn_with_signals()
            .args(["view", "--no-open", "--page", "page"])
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("http://").expect("a link");
        let (address, root) = url.split_once('/').unwrap();
        Self {
            child: KillOnDrop(child),
            address: address.parse().unwrap(),
            root: format!("/{root}"),
        }
    }

    /// Returns the target to which the printed link redirects.
    fn target(&self) -> String {
        let answer = self.get("", &[]);
        assert_eq!(answer.status, 302);
        answer.header("location").expect("a place").into()
    }

    fn get(&self, path: &str, headers: &[&str]) -> Answer {
        get(self.address, &format!("{}{path}", self.root), headers)
    }
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(path("page/assets")).unwrap();
    std::fs::create_dir_all(path("models/other")).unwrap();
    for (name, content) in [
        ("page/index.html", "<!doctype html>"),
        ("page/assets/a.js", "export {}"),
        ("page/assets/b.wasm", "\0asm"),
        ("models/my model.zstn", "0123456789"),
        ("models/.hidden", "secret"),
        ("models/other/second.zstn", "second"),
        ("outside.zstn", "outside"),
    ] {
        std::fs::write(path(name), content).unwrap();
    }
    folder
}

#[test]
fn page_and_models_are_served_below_a_path_that_nobody_can_guess() {
    let folder = folder();
    let inputs = ["models/my model.zstn", "models/other"];
    let view = Running::start(folder.path(), &inputs);
    assert!(view.address.ip().is_loopback());
    assert_eq!(view.root.len(), 34, "128 bits in hex");
    assert_eq!(
        view.target(),
        "?src=./models/0/my%2520model.zstn&with=./models/1/second.zstn"
    );
    for (path, kind, body) in [
        ("?src=x", "text/html", "<!doctype html>"),
        ("assets/a.js", "text/javascript", "export {}"),
        ("assets/b.wasm", "application/wasm", "\0asm"),
        ("models/1/second.zstn", "application/octet-stream", "second"),
    ] {
        let answer = view.get(path, &[]);
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (200, body),
            "{path}"
        );
        assert_eq!(answer.header("content-type"), Some(kind));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let policies: Vec<&str> = answer.headers("content-security-policy").collect();
        assert_eq!(policies.last(), Some(&"frame-ancestors 'none'"));
        let is_page = !path.starts_with("models/");
        let is_strict = policies.iter().any(|policy| is_strict_policy(policy));
        assert_eq!(is_strict, is_page, "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    let part = view.get("models/0/my%20model.zstn", &["Range: bytes=2-4"]);
    assert_eq!((part.status, part.text().as_str()), (206, "234"));
    for path in [
        "nothing",
        "models/0/.hidden",
        "models/0/../../outside.zstn",
        "models/0/%2e%2e/outside.zstn",
        "models/2/second.zstn",
        "models/0/",
        "../",
    ] {
        assert_eq!(view.get(path, &[]).status, 404, "{path}");
    }
    for path in ["/", "/index.html", "/models/0/my%20model.zstn"] {
        assert_eq!(get(view.address, path, &[]).status, 404, "{path}");
    }
    let other = Running::start(folder.path(), &inputs);
    assert_ne!(view.root, other.root);
}

#[test]
fn no_other_page_reads_anything() {
    let folder = folder();
    let view = Running::start(folder.path(), &["models/my model.zstn"]);
    let path = "models/0/my%20model.zstn";
    // DNS rebinding sends a foreign host name.
    let foreign = view.get(path, &["Host: evil.example"]);
    assert_eq!(foreign.status, 421);
    for origin in ["https://evil.example", "http://localhost:3000", "null"] {
        let answer = view.get(path, &[&format!("Origin: {origin}")]);
        assert_eq!(answer.status, 403, "{origin}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    let own = format!("Origin: http://{}", view.address);
    let host = format!("Host: {}", view.address);
    assert_eq!(view.get(path, &[&own, &host]).status, 200);
    let written = ask(view.address, "POST", &format!("{}{path}", view.root), &[]);
    assert_eq!(written.status, 405);
}

#[test]
fn a_token_of_the_environment_is_nowhere_in_the_link() {
    let folder = folder();
    let view = Running::start(folder.path(), &["hf://owner/name/model.zstn"]);
    assert_eq!(view.target(), "?src=hf%3A//owner/name/model.zstn");
}

#[test]
fn a_signature_in_an_address_is_nowhere_in_the_link() {
    let folder = folder();
    let address = "https://example.org/m.zstn?signature=secret";
    let view = Running::start(folder.path(), &[address]);
    assert_eq!(view.root.len(), 34, "{}", view.root);
    assert_eq!(
        view.target(),
        "?src=https%3A//example.org/m.zstn%3Fsignature%3Dsecret"
    );
}

#[test]
fn it_ends_with_success_when_it_is_interrupted() {
    let folder = folder();
    let mut view = Running::start(folder.path(), &["models/my model.zstn"]);
    // Once the process answers requests, its signal handlers are installed.
    assert_eq!(view.get("?src=x", &[]).status, 200);
    let process = Pid::from_child(&view.child.0);
    kill_process(process, Signal::INT).unwrap();
    assert!(view.child.0.wait().unwrap().success());
}

#[test]
fn what_cannot_be_shown_is_refused_in_a_sentence() {
    let folder = folder();
    for (arguments, sentence) in [
        (
            &["view", "--page", "page", "s3://bucket/model.zstn"][..],
            "https:// or hf://",
        ),
        (
            &["view", "--page", "page", "models/.hidden"],
            "begin with a dot",
        ),
        (&["view", "--page", "page", "nothing.zstn"], "nothing.zstn"),
        (&["view", "--page", "page", "page"], "contains no"),
        (
            &["view", "--page", "models", "outside.zstn"],
            "no index.html",
        ),
    ] {
        let output = zstn(folder.path(), arguments);
        assert!(!output.status.success(), "{arguments:?}");
        let said = text(&output.stderr);
        assert!(said.contains(sentence), "{said}");
    }
}
