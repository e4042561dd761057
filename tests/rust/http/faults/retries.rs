//! Temporary and permanent failures.

use std::io::Read;
use std::net::TcpListener;
use std::time::Duration;

use zstn::Error;
use zstn::source::{Remote, Source};
use zstn_tests::fault_server::{FaultServer, Served, Then, begin, head, right, send};

use super::{Case, Refused, Right, case, check, options};

const CASES: &[Case] = &[
    case("429 twice", Right, Right, |asked, served, to| {
        match asked.number {
            1 | 2 => send(
                to,
                &head(
                    "429 Too Many Requests",
                    &["Retry-After: 0", "Content-Length: 0"],
                ),
                b"",
            ),
            _ => right(asked, served, to),
        }
    }),
    case(
        "503 twice, later",
        Right,
        Right,
        |asked, served, to| match asked.number {
            2 | 3 => send(
                to,
                &head("503 Service Unavailable", &["Content-Length: 2"]),
                b"no",
            ),
            _ => right(asked, served, to),
        },
    ),
    case("408, 500, 502", Right, Right, |asked, served, to| {
        let status = ["408 a", "500 b", "502 c"].get(asked.number - 1);
        let Some(status) = status else {
            return right(asked, served, to);
        };
        send(to, &head(status, &["Content-Length: 0"]), b"")
    }),
    case(
        "503 for ever",
        Refused("(tried 4 times)"),
        Refused("(tried 4 times)"),
        |_, _, to| {
            send(
                to,
                &head("503 Service Unavailable", &["Content-Length: 0"]),
                b"",
            )
        },
    ),
    case(
        "a wait of days",
        Refused("asks for a wait of 1000000 s"),
        Refused("asks for a wait of 1000000 s"),
        |_, _, to| {
            send(
                to,
                &head(
                    "429 Too Many Requests",
                    &["Retry-After: 1000000", "Content-Length: 0"],
                ),
                b"",
            )
        },
    ),
    case("reset in the body", Right, Right, |asked, served, to| {
        if asked.number < 4 && asked.is_late() {
            begin(asked, served, to, 10)?;
            return Ok(Then::Reset);
        }
        right(asked, served, to)
    }),
    case(
        "reset without an answer, always",
        Refused("cannot be reached"),
        Refused("cannot be reached"),
        |_, _, _| Ok(Then::Reset),
    ),
    case(
        "closed without an answer",
        Right,
        Right,
        |asked, served, to| match asked.number {
            2 | 3 => Ok(Then::Close),
            _ => right(asked, served, to),
        },
    ),
    case(
        "closed after every answer, unannounced",
        Right,
        Right,
        |asked, served, to| {
            right(asked, served, to)?;
            Ok(Then::Close)
        },
    ),
];

#[test]
fn what_may_pass_is_tried_again() {
    check(CASES, &options(Duration::from_secs(10)));
}

#[test]
fn what_does_not_pass_is_asked_for_once() {
    for (status, behaviour) in [
        (
            404,
            (|_, _, to| send(to, &head("404 Not Found", &["Content-Length: 0"]), b""))
                as zstn_tests::fault_server::Behaviour,
        ),
        (403, |_, _, to| {
            send(to, &head("403 Forbidden", &["Content-Length: 0"]), b"")
        }),
        (501, |_, _, to| {
            send(
                to,
                &head("501 Not Implemented", &["Content-Length: 0"]),
                b"",
            )
        }),
    ] {
        let server = FaultServer::start(Served::default(), behaviour);
        let options = options(Duration::from_secs(10));
        let error = Remote::open(&server.url, 100, &options).unwrap_err();
        let found = match &error {
            Error::Http { status, .. } => *status,
            _ => None,
        };
        assert_eq!(found, Some(status), "{error}");
        assert_eq!(server.log().len(), 1, "{status}");
    }
}

#[test]
fn a_kept_connection_that_was_closed_costs_no_retry() {
    let served = Served {
        bytes: vec![7; 50_000],
        other: Vec::new(),
    };
    let server = FaultServer::start(served, |asked, served, to| match asked.number {
        2 => Ok(Then::Reset),
        _ => right(asked, served, to),
    });
    let mut options = options(Duration::from_secs(10));
    options.retries = 0;
    let remote = Remote::open(&server.url, 100, &options).unwrap();
    assert!(*remote.read(1000..2000).unwrap() == [7; 1000]);
}

#[test]
fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/m", listener.local_addr().unwrap());
    drop(listener);
    let error = Remote::open(&url, 100, &options(Duration::from_secs(10)));
    let text = error.unwrap_err().to_string();
    assert!(text.contains("cannot be reached"), "{text}");
    assert!(!text.contains("tried"), "{text}");
}

#[test]
fn a_server_that_goes_away_is_looked_for_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/m", listener.local_addr().unwrap());
    let answered = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        drop(listener);
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
        let range = "Content-Range: bytes 0-9/1000";
        let lines = [range, "Content-Length: 10", "Connection: close"];
        send(&mut stream, &head("206 Partial Content", &lines), &[7; 10]).unwrap();
    });
    let remote = Remote::open(&url, 10, &options(Duration::from_secs(10))).unwrap();
    answered.join().unwrap();
    let text = remote.read(10..20).unwrap_err().to_string();
    assert!(text.contains("(tried 4 times)"), "{text}");
}
