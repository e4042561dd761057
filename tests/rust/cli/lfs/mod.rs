//! `zstn lfs` as git-lfs starts it: the messages of the agent and the bytes of the
//! filter. Tests with the real git-lfs are in `tests/lfs`.

mod extended;
mod filter;
mod objects;
mod places;
mod refusals;
mod server;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use zstn::Job;
use zstn_tests::command::{program, text};
use zstn_tests::sha256;

/// Returns a command that runs in a folder outside any repository.
fn lfs(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command
        .arg("lfs")
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CEILING_DIRECTORIES", folder)
        .env("TMPDIR", folder)
        .env("TMP", folder) // folder for temporary files on Windows
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A running agent and the pipes to it.
struct Agent {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Agent {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let arguments = [&["agent"], arguments].concat();
        let mut child = lfs(folder, &arguments).spawn().unwrap();
        Self {
            to: child.stdin.take(),
            from: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// Starts an agent and completes the initialisation.
    fn ready(folder: &Path, arguments: &[&str]) -> Self {
        let mut agent = Self::start(folder, arguments);
        agent.send(&json!({
            "event": "init", "operation": "upload", "remote": "origin",
            "concurrent": false, "concurrenttransfers": 8,
        }));
        assert_eq!(agent.receive(), json!({}));
        agent
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.to.as_mut().unwrap(), "{message}").unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?} is not JSON"))
    }

    /// Sends a transfer request, checks the progress of a successful transfer, and
    /// returns the last message.
    fn transfer(&mut self, message: &Value) -> Value {
        self.send(message);
        let mut so_far = 0;
        loop {
            let reply = self.receive();
            assert_eq!(reply["oid"], message["oid"]);
            if reply["event"] == "complete" {
                if reply["error"].is_null() {
                    assert_eq!(message["size"], so_far);
                }
                return reply;
            }
            assert_eq!(reply["event"], "progress");
            so_far += reply["bytesSinceLast"].as_u64().unwrap();
            assert_eq!(reply["bytesSoFar"], so_far);
            assert!(so_far <= message["size"].as_u64().unwrap());
        }
    }

    fn fails(&mut self, message: &Value) -> String {
        let reply = self.transfer(message);
        let text = reply["error"]["message"].as_str();
        let text = text.unwrap_or_else(|| panic!("{message} was moved"));
        assert!(!text.contains('\n'), "{text}");
        text.into()
    }

    /// Closes the pipe and waits. Returns the exit status and the messages.
    fn end(mut self) -> (i32, String) {
        drop(self.to.take());
        let out = self.child.wait_with_output().unwrap();
        (out.status.code().unwrap(), text(&out.stderr))
    }
}

fn upload(path: &Path, bytes: &[u8]) -> Value {
    std::fs::write(path, bytes).unwrap();
    json!({
        "event": "upload", "oid": sha256(bytes), "size": bytes.len(),
        "path": path, "action": null,
    })
}

fn download(bytes: &[u8]) -> Value {
    let (oid, size) = (sha256(bytes), bytes.len());
    json!({"event": "download", "oid": oid, "size": size, "action": null})
}

fn folder_with_store() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("store")).unwrap();
    folder
}

/// Returns the path of an object in the store.
fn stored(folder: &TempDir, oid: &str) -> std::path::PathBuf {
    let store = folder.path().join("store");
    store.join(&oid[..2]).join(&oid[2..4]).join(oid)
}

/// Returns the folder below `parent` for unfinished files.
fn unfinished(parent: &Path) -> std::path::PathBuf {
    let entries = std::fs::read_dir(parent).unwrap();
    let mut paths = entries.map(|entry| entry.unwrap().path());
    let name = |path: &std::path::PathBuf| path.file_name().unwrap().display().to_string();
    let found = paths.find(|path| name(path).starts_with("unfinished-"));
    found.expect("there is no folder for files in the making")
}

/// Returns a checkpoint packed with default options.
fn zstn_bytes(model: &[u8]) -> Vec<u8> {
    zstn_bytes_with(model, false)
}

/// Returns a packed checkpoint, with extension frames if `extended` is set.
fn zstn_bytes_with(model: &[u8], extended: bool) -> Vec<u8> {
    let mut packed = Vec::new();
    let sink = zstn::Sink::writer(&mut packed);
    let options = zstn::PackOptions::default().extended(extended);
    zstn::pack(&Job::new(), model.to_vec(), sink, &options).unwrap();
    packed
}
