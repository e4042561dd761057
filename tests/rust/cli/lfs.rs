//! `zstn lfs` as git-lfs starts it: messages of the agent, bytes of the filter.
//! The real git-lfs is in `tests/lfs`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use zstn_tests::command::{program, text};
use zstn_tests::upload_server::{Act, UploadServer, take};
use zstn_tests::{many_kinds, sha256};

/// A command in a folder that is in no repository.
fn lfs(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command
        .arg("lfs")
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CEILING_DIRECTORIES", folder)
        .env("TMPDIR", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// An agent, and the pipes to it.
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

    /// Starts an agent that is ready.
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

    /// Has an object moved; returns the last message, once the progress of one
    /// that was moved has been checked.
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

    /// Closes the pipe; returns the exit status and what was printed for people.
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

#[test]
fn objects_come_back_bit_for_bit() {
    let folder = folder_with_store();
    let model = many_kinds(300_000);
    let packed = zstn_bytes(&model);
    let objects: [&[u8]; 9] = [
        &model,
        &model[..200_000],
        &packed,
        b"",
        b"x",
        b"ZSTN",
        b"ZLFS",
        b"ZLFS\x01\0\0\0",
        b"text",
    ];
    let mut agent = Agent::ready(folder.path(), &["--store", "store"]);
    for bytes in objects {
        let path = folder.path().join("object");
        let reply = agent.transfer(&upload(&path, bytes));
        assert_eq!(reply, json!({"event": "complete", "oid": sha256(bytes)}));
        assert!(std::fs::read(&path).unwrap() == bytes);
    }
    for bytes in objects {
        let reply = agent.transfer(&download(bytes));
        let path = reply["path"].as_str().unwrap_or_else(|| panic!("{reply}"));
        assert!(std::fs::read(path).unwrap() == bytes);
        std::fs::remove_file(path).unwrap();
    }
    let first = std::fs::read(stored(&folder, &sha256(&model))).unwrap();
    assert!(first.starts_with(b"ZSTN") && first.len() < model.len());
    assert_eq!(agent.end(), (0, String::new()));
    // Nothing is left but the store and the file that was sent.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

fn zstn_bytes(model: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let sink = zstn::Sink::writer(&mut packed);
    let options = zstn::PackOptions::default();
    zstn::pack(&zstn::Engine::default(), model.to_vec(), sink, &options).unwrap();
    packed
}

#[test]
fn an_object_that_fails_is_an_answer_and_the_next_is_moved() {
    let folder = folder_with_store();
    let path = folder.path().join("object");
    let mut agent = Agent::ready(folder.path(), &["--store", "store"]);
    // Names that are not digests could be paths.
    let outside = format!("../../../../{}", "a".repeat(52));
    let upper = sha256(b"x").to_uppercase();
    for oid in [&*outside, &upper, "", "abc", &"/".repeat(64)] {
        let mut message = upload(&path, b"x");
        message["oid"] = oid.into();
        assert!(agent.fails(&message).contains("64 hexadecimal digits"));
        message["event"] = "download".into();
        assert!(agent.fails(&message).contains("64 hexadecimal digits"));
    }
    // Local files that are not what they are said to be.
    let mut message = upload(&path, b"x");
    message["oid"] = sha256(b"y").into();
    assert!(agent.fails(&message).contains("git lfs fsck"));
    message["path"] = folder.path().join("nothing").to_str().into();
    assert!(agent.fails(&message).contains("nothing"));
    let mut message = upload(&path, b"x");
    message["size"] = 2.into();
    assert!(agent.fails(&message).contains("git lfs fsck"));
    assert!(agent.fails(&download(b"x")).contains("is not there"));
    assert!(agent.transfer(&upload(&path, b"x"))["error"].is_null());
    agent.send(&json!({"event": "terminate"}));
    assert_eq!(agent.child.wait().unwrap().code(), Some(0));
}

#[test]
fn damaged_objects_are_named() {
    let folder = folder_with_store();
    let model = many_kinds(100_000);
    let packed = zstn_bytes(&model);
    let path = stored(&folder, &sha256(&model));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut agent = Agent::ready(folder.path(), &["--store", "store"]);
    let mut flipped = packed.clone();
    flipped[packed.len() / 2] ^= 1;
    let other = zstn_bytes(&many_kinds(90_000));
    let longer = [&model[..], &[0; 9]].concat();
    let changed = [&model[..model.len() - 1], b"?"].concat();
    let envelope = [b"ZLFS\x01\0\0\0", &changed[..]].concat();
    for (damaged, reason) in [
        (&flipped[..], ""),
        (&packed[..packed.len() / 2], ""),
        (b"ZSTN", ""),
        (&other, "bytes instead of"),
        (&longer, "more than the original"),
        (&model[1..], "bytes instead of"),
        (&changed, "have the SHA-256"),
        (&envelope, "have the SHA-256"),
        (b"ZLFS\x02\0\0\0", "use a newer one"),
        (b"", "bytes instead of"),
    ] {
        std::fs::write(&path, damaged).unwrap();
        let said = agent.fails(&download(&model));
        assert!(
            said.contains(" is damaged: ") && said.contains(reason),
            "{said}"
        );
        assert!(said.contains("git lfs push --object-id"), "{said}");
    }
    std::fs::write(&path, &packed).unwrap();
    assert!(agent.transfer(&download(&model))["error"].is_null());
    // What is there is not looked into, and not sent again.
    std::fs::write(&path, b"damaged").unwrap();
    let local = folder.path().join("object");
    assert!(agent.transfer(&upload(&local, &model))["error"].is_null());
    assert_eq!(std::fs::read(&path).unwrap(), b"damaged");
    assert_eq!(agent.end(), (0, String::new()));
}

#[test]
fn other_messages_end_the_agent() {
    let folder = folder_with_store();
    let started = |line: &str| {
        let mut agent = Agent::start(folder.path(), &["--store", "store"]);
        agent
            .to
            .as_mut()
            .unwrap()
            .write_all(line.as_bytes())
            .unwrap();
        agent.end()
    };
    let secret = r#"{"event":"upload","oid":"x","header":"secret"}"#;
    let endless = "x".repeat(2 << 20);
    for line in ["GET / HTTP/1.1\n", secret, "{}\n", "[]\n", &endless] {
        let mut agent = Agent::start(folder.path(), &["--store", "store"]);
        // A pipe that the agent has closed is an answer, too.
        let _ = agent.to.as_mut().unwrap().write_all(line.as_bytes());
        let (status, said) = agent.end();
        assert_eq!(status, 2, "{said}");
        assert!(
            said.contains("git-lfs") && !said.contains("secret"),
            "{said}"
        );
    }
    let early = format!("{}\n", download(b"x"));
    assert!(started(&early).1.contains("init"));
    assert_eq!(started("\n\n"), (0, String::new()));
}

#[test]
fn a_store_that_cannot_be_used_is_said_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(folder.path(), &["--store", "nowhere"]);
    agent.send(&json!({"event": "init", "operation": "download"}));
    let reply = agent.receive();
    assert_eq!(reply["error"]["code"], 32);
    let said = reply["error"]["message"].as_str().unwrap();
    assert!(said.contains("nowhere is not there"), "{said}");
    assert_eq!(agent.end().0, 0);
    for (store, reason) in [
        ("https://example.org/lfs", "cannot be a store of objects"),
        ("hf://o/n", "cannot be a store of objects"),
        ("ftp://example.org", "cannot be a store of objects"),
        ("memory://lfs", "as long as a process runs"),
        ("s3://", "the bucket or container is missing"),
    ] {
        let (status, said) = Agent::start(folder.path(), &["--store", store]).end();
        assert_eq!(status, 2, "{said}");
        assert!(said.contains(reason), "{said}");
    }
    // Without a store, the server has to say where objects are.
    let mut agent = Agent::ready(folder.path(), &[]);
    let said = agent.fails(&download(b"x"));
    assert!(said.contains("zstn lfs install --store"), "{said}");
}

#[test]
fn a_server_gets_packed_objects_with_its_headers() {
    let folder = tempfile::tempdir().unwrap();
    let model = many_kinds(100_000);
    let server = UploadServer::start(|_| take("200 OK"));
    let mut agent = Agent::ready(folder.path(), &[]);
    let mut message = upload(&folder.path().join("object"), &model);
    message["action"] = json!({
        "href": server.url,
        "header": {
            "Authorization": "Bearer a-token",
            "Content-Type": "application/x-model",
            // The agent knows better how long a packed object is.
            "Content-Length": model.len().to_string(),
            "Transfer-Encoding": "chunked",
        },
    });
    assert!(agent.transfer(&message)["error"].is_null());
    let log = server.log();
    let put = log
        .iter()
        .find(|asked| asked.line.starts_with("PUT"))
        .unwrap();
    assert_eq!(put.header("authorization"), Some("Bearer a-token"));
    let kinds = put
        .headers
        .iter()
        .filter(|(name, _)| name == "content-type");
    assert_eq!(kinds.count(), 1);
    assert_eq!(put.header("content-type"), Some("application/x-model"));
    assert!(put.body.as_deref() == Some(&zstn_bytes(&model)[..]));
}

#[test]
fn secrets_stay_with_their_server() {
    let folder = tempfile::tempdir().unwrap();
    let other = UploadServer::start(|_| take("200 OK"));
    let elsewhere = format!("Location: {}\r\n", other.url);
    let server =
        UploadServer::start(move |_| Act::Take("307 Temporary Redirect", elsewhere.clone()));
    let mut agent = Agent::ready(folder.path(), &[]);
    let mut message = upload(&folder.path().join("object"), b"x");
    message["action"] = json!({
        "href": format!("{}?signature=a-secret", server.url),
        "header": {"Authorization": "Bearer a-token"},
    });
    let said = agent.fails(&message);
    assert!(
        !said.contains("a-secret") && !said.contains("a-token"),
        "{said}"
    );
    assert!(other.log().is_empty());
    // Nor do addresses of other kinds get anything.
    for href in ["file:///etc/passwd", "s3://bucket/x", "/etc/passwd"] {
        message["action"] = json!({"href": href});
        assert!(agent.fails(&message).contains("http"));
        let mut wanted = download(b"x");
        wanted["action"] = json!({"href": href});
        assert!(agent.fails(&wanted).contains("http"));
    }
    message["action"] = json!({"href": server.url, "header": {"X": "a\r\nb: a-token"}});
    assert!(!agent.fails(&message).contains("a-token"));
    assert_eq!(agent.end().0, 0);
}

/// Runs the filter on bytes.
fn filter(folder: &Path, direction: &str, bytes: &[u8]) -> Output {
    let arguments = ["filter", direction, "--", "-a name.safetensors"];
    let mut child = lfs(folder, &arguments).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || to.write_all(&bytes));
    let out = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    out
}

#[test]
fn the_filter_packs_and_unpacks() {
    let folder = tempfile::tempdir().unwrap();
    let model = many_kinds(200_000);
    let packed = filter(folder.path(), "clean", &model);
    assert!(packed.status.success(), "{}", text(&packed.stderr));
    assert!(packed.stdout == zstn_bytes(&model));
    let back = filter(folder.path(), "smudge", &packed.stdout);
    assert!(back.status.success() && back.stdout == model);
    // Everything else stays what it is, packed files included.
    let text_file = b"version https://git-lfs.github.com/spec/v1\n".repeat(30);
    for bytes in [&b""[..], b"x", b"ZLFS\x02", &packed.stdout, &text_file] {
        let out = filter(folder.path(), "clean", bytes);
        assert!(out.status.success() && out.stdout == bytes);
    }
    assert!(filter(folder.path(), "smudge", b"plain").stdout == b"plain");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_filter_refuses_pointers_and_damage() {
    let folder = tempfile::tempdir().unwrap();
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    let out = filter(folder.path(), "clean", pointer);
    assert_eq!(out.status.code(), Some(2));
    assert!(out.stdout.is_empty());
    let said = text(&out.stderr);
    assert!(
        said.contains("-a name.safetensors is a pointer of git-lfs"),
        "{said}"
    );
    let mut packed = zstn_bytes(&many_kinds(50_000));
    let middle = packed.len() / 2;
    packed[middle] ^= 1;
    let out = filter(folder.path(), "smudge", &packed);
    assert_eq!(out.status.code(), Some(1));
    assert!(out.stdout.is_empty());
    assert!(text(&out.stderr).contains("-a name.safetensors: "));
}
