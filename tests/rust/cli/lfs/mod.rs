//! `zstn lfs` as git-lfs starts it: the messages of the agent, the clean and smudge
//! filter, and the objects of a store: intact, damaged, and with extension frames
//! (docs/formats/extensions.md).

mod agent;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use zstn::Job;
use zstn_tests::archives::Archive;
use zstn_tests::checkpoints::{npy, quantised, usual};
use zstn_tests::command::{program, text};
use zstn_tests::{many_kinds, sha256};

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

/// Runs the filter on these bytes.
fn filter(folder: &Path, direction: &str, bytes: &[u8]) -> Output {
    filter_with(folder, &[direction], bytes)
}

/// Runs the filter with additional arguments on these bytes.
pub fn filter_with(folder: &Path, arguments: &[&str], bytes: &[u8]) -> Output {
    let arguments = [&["filter"], arguments, &["--", "-a name.safetensors"]].concat();
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
    // All other content stays unchanged, including packed files.
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

/// Returns the names of an agent's unfinished files.
fn made(folder: &TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(unfinished(folder.path())).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != "lock").collect()
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
    // Only the store and the uploaded file remain.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn models_of_other_formats_are_stored_packed() {
    let folder = folder_with_store();
    let array = npy(3, 20_000);
    let archive = Archive::default().member("readme.txt", &b"not a model\n".repeat(500));
    let archive = archive.finish();
    let mut agent = Agent::ready(folder.path(), &["--store", "store"]);
    for (original, is_packed) in [(&array, true), (&archive, false)] {
        let path = folder.path().join("object");
        let reply = agent.transfer(&upload(&path, original));
        assert_eq!(reply["error"], Value::Null);
        let object = std::fs::read(stored(&folder, &sha256(original))).unwrap();
        assert_eq!(object.starts_with(b"ZSTN"), is_packed);
        assert_eq!(object.len() < original.len(), is_packed);
        let reply = agent.transfer(&download(original));
        let path = reply["path"].as_str().unwrap_or_else(|| panic!("{reply}"));
        assert!(std::fs::read(path).unwrap() == *original);
    }
    assert_eq!(agent.end(), (0, String::new()));
    for (original, is_packed) in [(&array, true), (&archive, false)] {
        let cleaned = filter(folder.path(), "clean", original);
        assert!(cleaned.status.success(), "{}", text(&cleaned.stderr));
        assert_eq!(cleaned.stdout.starts_with(b"ZSTN"), is_packed);
        let back = filter(folder.path(), "smudge", &cleaned.stdout);
        assert!(back.status.success() && back.stdout == *original);
    }
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
        (&changed, "have the SHA-256"),
        (&envelope, "have the SHA-256"),
    ] {
        std::fs::write(&path, damaged).unwrap();
        let said = agent.fails(&download(&model));
        assert!(
            said.contains(" is damaged: ") && said.contains(reason),
            "{said}"
        );
        assert!(said.contains("git lfs push --object-id"), "{said}");
    }
    // These objects may be intact while the pointer is wrong.
    for (other, reason) in [
        (&other[..], "bytes instead of"),
        (&longer, "more than the original"),
        (&model[1..], "bytes instead of"),
        (b"", "bytes instead of"),
    ] {
        std::fs::write(&path, other).unwrap();
        let said = agent.fails(&download(&model));
        assert!(said.contains("does not match its pointer"), "{said}");
        assert!(said.contains(reason), "{said}");
    }
    // This object is intact, so the message must not suggest deleting it.
    std::fs::write(&path, b"ZLFS\x02\0\0\0").unwrap();
    let said = agent.fails(&download(&model));
    assert!(said.contains("use a newer one"), "{said}");
    assert!(
        !said.contains("damaged") && !said.contains("delete"),
        "{said}"
    );
    // The failed downloads left no files in the folder for unfinished files.
    assert_eq!(made(&folder), Vec::<String>::new());
    std::fs::write(&path, &packed).unwrap();
    assert!(agent.transfer(&download(&model))["error"].is_null());
    // An existing object is not sent again, but it must restore the original, because
    // git-lfs may then prune the local copy.
    let local = folder.path().join("object");
    let restored = made(&folder);
    assert!(agent.transfer(&upload(&local, &model))["error"].is_null());
    for damaged in [b"damaged", &flipped[..], &changed, &other] {
        std::fs::write(&path, damaged).unwrap();
        let said = agent.fails(&upload(&local, &model));
        assert!(said.contains("git lfs push --object-id"), "{said}");
        assert!(std::fs::read(&path).unwrap() == damaged);
    }
    assert_eq!(made(&folder), restored);
    assert_eq!(agent.end(), (0, String::new()));
}

#[test]
fn the_agent_writes_them_if_it_may_and_always_reads_them() {
    let folder = folder_with_store();
    let mut agent = Agent::ready(folder.path(), &["--store", "store", "--extended"]);
    let path = folder.path().join("object");
    for (model, version) in [(quantised(), 4), (usual(), 3)] {
        let reply = agent.transfer(&upload(&path, &model));
        assert_eq!(reply, json!({"event": "complete", "oid": sha256(&model)}));
        let object = std::fs::read(stored(&folder, &sha256(&model))).unwrap();
        assert_eq!(object[4], version);
        assert!(object == zstn_bytes_with(&model, true));
    }
    assert_eq!(agent.end(), (0, String::new()));
    let mut agent = Agent::ready(folder.path(), &["--store", "store"]);
    for model in [quantised(), usual()] {
        let reply = agent.transfer(&download(&model));
        let path = reply["path"].as_str().unwrap_or_else(|| panic!("{reply}"));
        assert!(std::fs::read(path).unwrap() == model);
    }
    assert_eq!(agent.end(), (0, String::new()));
}

#[test]
fn the_filter_writes_them_if_it_may_and_always_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let model = quantised();
    let packed = filter_with(folder.path(), &["clean", "--extended"], &model);
    assert!(packed.status.success(), "{}", text(&packed.stderr));
    assert_eq!(packed.stdout[4], 4);
    assert!(packed.stdout == zstn_bytes_with(&model, true));
    let usual = filter_with(folder.path(), &["clean"], &model);
    assert_eq!(usual.stdout[4], 3);
    let back = filter_with(folder.path(), &["smudge"], &packed.stdout);
    assert!(back.status.success() && back.stdout == model);
}

/// Returns a git setting of the repository in `folder`.
fn setting(folder: &Path, name: &str) -> String {
    let mut git = Command::new("git");
    git.args(["config", "--get", name]).current_dir(folder);
    text(&git.output().unwrap().stdout).trim().to_owned()
}

#[test]
fn install_passes_the_option_on() {
    let folder = folder_with_store();
    let mut init = Command::new("git");
    init.args(["init", "--quiet"]).current_dir(folder.path());
    assert!(init.status().unwrap().success());
    let install = |arguments: &[&str]| {
        let arguments = [&["install"], arguments].concat();
        let out = lfs(folder.path(), &arguments).output().unwrap();
        assert!(out.status.success(), "{}", text(&out.stderr));
    };
    let (agent, clean) = ("lfs.customtransfer.zstn.args", "lfs.extension.zstn.clean");
    install(&["--store", "store", "--extended"]);
    let arguments = setting(folder.path(), agent);
    assert!(
        arguments.starts_with("lfs agent --extended --store "),
        "{arguments}"
    );
    install(&["--store", "store"]);
    assert!(setting(folder.path(), agent).starts_with("lfs agent --store "));
    install(&["--filter", "--extended"]);
    assert!(setting(folder.path(), clean).ends_with(" lfs filter clean --extended -- %f"));
    let smudge = setting(folder.path(), "lfs.extension.zstn.smudge");
    assert!(smudge.ends_with(" lfs filter smudge -- %f"));
}
