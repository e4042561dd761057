//! Uploading files with PUT.

use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

use zstn::Error;
use zstn::source::{HttpOptions, put};
use zstn_tests::rng::Rng;
use zstn_tests::upload_server::{Act, UploadServer as Server, take};

const TOKEN: &str = "hf_a-secret-token";

/// Creates a temporary file with these bytes.
fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

/// Returns options with a token for a server.
fn options(server: &Server) -> HttpOptions {
    let mut options = HttpOptions::default();
    options.first_backoff = Duration::from_millis(2);
    options.token(&server.url, TOKEN).unwrap()
}

fn status(error: &Error) -> Option<u16> {
    match error {
        Error::Http { status, .. } => *status,
        _ => panic!("{error:?}"),
    }
}

#[test]
fn a_file_is_written_by_one_request() {
    for (len, answer) in [
        (0, "201 Created"),
        (1000, "200 OK"),
        (5 << 20, "204 No Content"),
    ] {
        for replace in [false, true] {
            let bytes = Rng(3).bytes(len);
            // The upload is limited to the first `len` bytes of the file.
            let local = file(&[&bytes[..], b"more"].concat());
            let server = Server::start(move |_| take(answer));
            let options = options(&server);
            put(&server.url, &local, len as u64, &options, replace).unwrap();
            let log = server.puts();
            assert_eq!(log.len(), 1);
            assert!(log[0].body.as_ref() == Some(&bytes), "{len}");
            assert_eq!(log[0].line, "PUT /folder/m.zstn");
            assert_eq!(log[0].header("content-length"), Some(&*len.to_string()));
            assert_eq!(log[0].header("transfer-encoding"), None);
            let condition = (!replace).then_some("*");
            assert_eq!(log[0].header("if-none-match"), condition);
            for asked in server.log() {
                let token = format!("Bearer {TOKEN}");
                assert_eq!(asked.header("authorization"), Some(&*token));
            }
        }
    }
}

#[test]
fn a_file_that_is_there_stays_unless_it_may_be_replaced() {
    let local = file(b"bytes");
    let server = Server::with_head("200 OK", |_| take("201 Created"));
    let refused = put(&server.url, &local, 5, &options(&server), false).unwrap_err();
    assert!(matches!(refused, Error::Exists { .. }), "{refused:?}");
    assert!(refused.to_string().contains(&server.url));
    assert!(server.puts().is_empty());
    put(&server.url, &local, 5, &options(&server), true).unwrap();

    // The target appears after the client checked that it does not exist.
    let server = Server::start(|_| take("412 Precondition Failed"));
    let refused = put(&server.url, &local, 5, &options(&server), false).unwrap_err();
    assert!(matches!(refused, Error::Exists { .. }), "{refused:?}");
    let refused = put(&server.url, &local, 5, &options(&server), true).unwrap_err();
    assert_eq!(status(&refused), Some(412));

    // URLs that are signed for writing refuse HEAD requests.
    let server = Server::with_head("403 Forbidden", |_| take("201 Created"));
    put(&server.url, &local, 5, &options(&server), false).unwrap();
}

#[test]
fn a_large_body_waits_for_the_server() {
    let local = file(&vec![7; 3 << 20]);
    let server = Server::start(|_| Act::Refuse("401 Unauthorized"));
    let refused = put(&server.url, &local, 3 << 20, &options(&server), false);
    let refused = refused.unwrap_err();
    assert_eq!(status(&refused), Some(401), "{refused}");
    assert!(!format!("{refused} {refused:?}").contains(TOKEN));
    assert!(server.puts().iter().all(|asked| asked.body.is_none()));
}

#[test]
fn redirects_are_followed_inside_of_the_origin_alone() {
    let local = file(b"bytes");
    for code in ["307 Temporary Redirect", "308 Permanent Redirect"] {
        let server = Server::start(move |asked| match asked.line.ends_with("/there") {
            true => take("201 Created"),
            false => Act::Take(code, "Location: /there\r\n".into()),
        });
        put(&server.url, &local, 5, &options(&server), false).unwrap();
        let log = server.puts();
        assert_eq!(log[1].line, "PUT /there");
        assert_eq!(log[1].body.as_deref(), Some(&b"bytes"[..]));
        assert!(log[1].header("authorization").is_some());

        let away = Server::start(|_| take("201 Created"));
        let location = format!("Location: {}\r\n", away.url);
        let server = Server::start(move |_| Act::Take(code, location.clone()));
        let refused = put(&server.url, &local, 5, &options(&server), false).unwrap_err();
        assert_eq!(status(&refused), code[..3].parse().ok());
        let origin = away.url.trim_end_matches("/folder/m.zstn");
        assert!(refused.to_string().contains(origin), "{refused}");
        assert!(away.log().is_empty());
    }
    for code in ["301 Moved Permanently", "302 Found", "303 See Other"] {
        let server = Server::start(move |_| Act::Take(code, "Location: /there\r\n".into()));
        let refused = put(&server.url, &local, 5, &options(&server), false).unwrap_err();
        assert_eq!(status(&refused), code[..3].parse().ok(), "{refused}");
        assert_eq!(server.puts().len(), 1);
    }
    let around = Server::start(|asked| {
        Act::Take(
            "307 Temporary Redirect",
            format!("Location: /{}\r\n", asked.number),
        )
    });
    let refused = put(&around.url, &local, 5, &options(&around), false).unwrap_err();
    assert!(
        refused.to_string().contains("more than 10 times"),
        "{refused}"
    );
}

#[test]
fn what_may_pass_is_tried_again() {
    let local = file(b"bytes");
    for failure in [
        "429 Too Many Requests",
        "503 Service Unavailable",
        "500 Oops",
    ] {
        let server = Server::start(move |asked| match asked.number {
            1 => Act::Take(failure, "Retry-After: 0\r\n".into()),
            _ => take("201 Created"),
        });
        put(&server.url, &local, 5, &options(&server), true).unwrap();
        let log = server.puts();
        assert_eq!(log.len(), 2);
        assert_eq!(log[0].body, log[1].body);

        let server = Server::start(move |_| take(failure));
        let mut options = options(&server);
        options.retries = 2;
        let refused = put(&server.url, &local, 5, &options, true).unwrap_err();
        assert_eq!(status(&refused), failure[..3].parse().ok());
        assert!(refused.to_string().contains("tried 3 times"), "{refused}");
        assert_eq!(server.puts().len(), 3);
    }
    let server = Server::start(|asked| match asked.number {
        1 => Act::TakeAndClose,
        _ => take("201 Created"),
    });
    put(&server.url, &local, 5, &options(&server), false).unwrap();
    assert_eq!(server.puts().len(), 2);
}

#[test]
fn a_lost_answer_may_have_been_a_success() {
    let local = file(b"bytes");
    let server = Server::start(|asked| match asked.number {
        1 => Act::TakeAndClose,
        _ => take("412 Precondition Failed"),
    });
    let refused = put(&server.url, &local, 5, &options(&server), false).unwrap_err();
    assert!(matches!(refused, Error::Exists { .. }), "{refused:?}");
    assert!(refused.to_string().contains("perhaps written"), "{refused}");
}

#[test]
fn other_statuses_are_errors_with_a_reason() {
    let local = file(b"bytes");
    for (code, words) in [
        ("202 Accepted", "202"),
        ("400 Bad Request", "400"),
        ("401 Unauthorized", "login"),
        ("403 Forbidden", "login"),
        ("404 Not Found", "takes no files"),
        ("405 Method Not Allowed", "takes no files"),
        ("409 Conflict", "folder may be missing"),
        ("413 Content Too Large", "too large"),
        ("501 Not Implemented", "takes no files"),
    ] {
        let server = Server::start(move |_| take(code));
        let refused = put(&server.url, &local, 5, &options(&server), false).unwrap_err();
        assert_eq!(status(&refused), code[..3].parse().ok());
        let text = refused.to_string();
        assert!(text.contains(words) && text.contains(&server.url), "{text}");
        assert!(!text.contains(TOKEN), "{text}");
        assert_eq!(server.puts().len(), 1, "{code}");
    }
}

#[test]
fn what_cannot_be_sent_is_said() {
    let local = file(b"bytes");
    let server = Server::start(|_| take("201 Created"));
    let short = put(&server.url, &local, 6, &options(&server), false).unwrap_err();
    assert!(matches!(short, Error::Io { .. }), "{short:?}");
    for url in ["hf://o/n/f", "file:///a", "s3://b/k", "model.zstn", ""] {
        let refused = put(url, &local, 5, &HttpOptions::default(), true).unwrap_err();
        assert!(matches!(refused, Error::Usage(_)), "{url}: {refused:?}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/m", listener.local_addr().unwrap());
    drop(listener);
    let refused = put(&url, &local, 5, &HttpOptions::default(), true).unwrap_err();
    assert!(
        refused.to_string().contains("cannot be reached"),
        "{refused}"
    );
}
