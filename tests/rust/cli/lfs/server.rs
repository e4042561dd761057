//! Requests that the agent sends to servers.

use serde_json::json;
use zstn_tests::many_kinds;
use zstn_tests::upload_server::{Act, UploadServer, take};

use super::{Agent, download, upload, zstn_bytes};

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
