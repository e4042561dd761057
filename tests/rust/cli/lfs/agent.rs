//! The transfer agent: messages and stores that it refuses, requests that it sends to
//! servers, and folders that disappear or become old while it runs.

use std::fs::{self, FileTimes, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::json;
use zstn_tests::upload_server::{Act, UploadServer, take};
use zstn_tests::{many_kinds, sha256};

#[cfg(unix)]
use super::stored;
use super::{Agent, download, folder_with_store, lfs, unfinished, upload, zstn_bytes};

#[test]
fn an_object_that_fails_is_an_answer_and_the_next_is_moved() {
    let folder = folder_with_store();
    let path = folder.path().join("object");
    let mut agent = Agent::ready(folder.path(), &["--store", "store"]);
    // Object ids that are not digests could be paths.
    let outside = format!("../../../../{}", "a".repeat(52));
    let upper = sha256(b"x").to_uppercase();
    for oid in [&*outside, &upper, "", "abc", &"/".repeat(64)] {
        let mut message = upload(&path, b"x");
        message["oid"] = oid.into();
        assert!(agent.fails(&message).contains("64 hexadecimal digits"));
        message["event"] = "download".into();
        assert!(agent.fails(&message).contains("64 hexadecimal digits"));
    }
    // Local files that do not match the message.
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
        // The agent may already have closed the pipe, which is fine.
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
    // Without a store, the server must provide the address of each object.
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
            // The agent replaces this with the length of the packed object.
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
    // URLs with other schemes do not receive anything either.
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

#[test]
fn a_store_that_disappears_is_not_created_anew() {
    let folder = folder_with_store();
    let (store, away) = (folder.path().join("store"), folder.path().join("away"));
    let object = folder.path().join("object");
    let mut agent = Agent::ready(folder.path(), &["--store", "store"]);
    assert!(agent.transfer(&upload(&object, b"x"))["error"].is_null());
    fs::rename(&store, &away).unwrap();
    let said = agent.fails(&upload(&object, b"y"));
    assert!(said.contains("mount it"), "{said}");
    assert!(!store.exists());
    let said = agent.fails(&download(b"x"));
    assert!(said.contains("mount it"), "{said}");
    fs::rename(&away, &store).unwrap();
    assert!(agent.transfer(&upload(&object, b"y"))["error"].is_null());
    assert_eq!(agent.end(), (0, String::new()));
}

// Windows does not remove a folder that contains an open file, such as the agent's
// lock.
#[cfg(unix)]
#[test]
fn a_lost_folder_of_this_machine_is_not_a_missing_object() {
    let folder = folder_with_store();
    let object = folder.path().join("object");
    let mut agent = Agent::ready(folder.path(), &["--store", "store"]);
    let message = upload(&object, b"x");
    assert!(agent.transfer(&message)["error"].is_null());
    fs::remove_dir_all(unfinished(folder.path())).unwrap();
    let said = agent.fails(&download(b"x"));
    assert!(said.contains("cannot create a temporary file"), "{said}");
    assert!(
        !said.contains("is not there") && !said.contains("push"),
        "{said}"
    );
    assert!(stored(&folder, message["oid"].as_str().unwrap()).exists());
    assert_eq!(agent.end().0, 0);
}

#[test]
fn old_folders_are_removed_unless_their_process_runs() {
    let folder = folder_with_store();
    let init = Command::new("git")
        .args(["init", "-q"])
        .current_dir(folder.path())
        .status();
    assert!(init.unwrap().success());
    let own = folder.path().join(".git/lfs/zstn");
    let mut agent = Agent::ready(folder.path(), &["--store", "store"]);
    let alive = unfinished(&own);
    let left = own.join("unfinished-left");
    fs::create_dir(&left).unwrap();
    for path in [&alive, &left] {
        grow_old(path);
    }
    let cleaned = lfs(folder.path(), &["filter", "clean", "x"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(cleaned.status.success(), "{cleaned:?}");
    assert!(alive.exists());
    assert!(!left.exists());
    let object = folder.path().join("object");
    assert!(agent.transfer(&upload(&object, b"x"))["error"].is_null());
    assert!(agent.transfer(&download(b"x"))["error"].is_null());
    assert_eq!(agent.end(), (0, String::new()));
}

fn grow_old(folder: &Path) {
    let past = SystemTime::now() - Duration::from_secs(48 * 60 * 60);
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(windows)]
    {
        use std::os::windows::fs::OpenOptionsExt;
        const FILE_WRITE_ATTRIBUTES: u32 = 0x100;
        const FILE_FLAG_BACKUP_SEMANTICS: u32 = 0x0200_0000; // for folders
        options
            .access_mode(FILE_WRITE_ATTRIBUTES)
            .custom_flags(FILE_FLAG_BACKUP_SEMANTICS);
    }
    let opened = options.open(folder).unwrap();
    opened
        .set_times(FileTimes::new().set_modified(past))
        .unwrap();
}
