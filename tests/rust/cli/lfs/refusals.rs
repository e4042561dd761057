//! Messages and stores that the agent refuses.

use std::io::Write;

use serde_json::json;
use zstn_tests::sha256;

use super::{Agent, download, folder_with_store, upload};

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
