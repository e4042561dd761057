//! Redirects, and answers that are hardly HTTP.

use std::io::Write;
use std::time::Duration;

use zstn::source::{Location, Remote};
use zstn_tests::fault_server::{FaultServer, Served, Then, head, pour, right, right_parts, send};

use super::{Case, Outcome, Refused, Right, case, check, options};

const NOT_HTTP: Outcome = Refused("not valid HTTP");
const TOO_MUCH: Outcome = Refused("more headers than are read");

const CASES: &[Case] = &[
    case("a redirect", Right, Right, |asked, served, to| {
        if asked.path.starts_with("/signed/") {
            return right(asked, served, to);
        }
        let length = ["Location: signed/m?s=1#x", "Content-Length: 2"];
        send(to, &head("302 Found", &length), b"no")
    }),
    case(
        "a redirect to another origin",
        Right,
        Right,
        |asked, served, to| {
            if asked.path == "/there" {
                return right(asked, served, to);
            }
            let location = format!("Location: http://localhost:{}/there", asked.port);
            send(
                to,
                &head("307 Temporary Redirect", &[&location, "Content-Length: 0"]),
                b"",
            )
        },
    ),
    case(
        "a redirect in a circle",
        Refused("redirects more than 10 times"),
        Refused("redirects more than 10 times"),
        |_, _, to| {
            send(
                to,
                &head("302 Found", &["Location: /model", "Content-Length: 0"]),
                b"",
            )
        },
    ),
    case(
        "a redirect to nowhere",
        Refused("without saying where"),
        Refused("without saying where"),
        |_, _, to| send(to, &head("302 Found", &["Content-Length: 0"]), b""),
    ),
    case(
        "a redirect to a local file",
        Refused("neither http nor https"),
        Refused("neither http nor https"),
        |_, _, to| {
            send(
                to,
                &head(
                    "302 Found",
                    &["Location: file:///etc/passwd", "Content-Length: 0"],
                ),
                b"",
            )
        },
    ),
    case(
        "a redirect whose body has no end",
        Right,
        Right,
        |asked, served, to| {
            if asked.path == "/there" {
                return right(asked, served, to);
            }
            to.write_all(&head(
                "302 Found",
                &["Location: /there", "Connection: close"],
            ))?;
            pour(to, &[0; 65536])
        },
    ),
    case(
        "a header of 1 MB",
        TOO_MUCH,
        TOO_MUCH,
        |asked, served, to| {
            let (_, body) = right_parts(asked, served);
            let big = format!("X: {}", "a".repeat(1 << 20));
            to.write_all(&head("206 Partial Content", &[&big]))?;
            to.write_all(&body)?;
            Ok(Then::Close)
        },
    ),
    case("a header without an end", TOO_MUCH, TOO_MUCH, |_, _, to| {
        to.write_all(b"HTTP/1.1 200 OK\r\nX: ")?;
        pour(to, &[b'a'; 65536])
    }),
    case("2000 headers", NOT_HTTP, NOT_HTTP, |_, _, to| {
        to.write_all(&head("200 OK", &["X: a"; 2000]))?;
        Ok(Then::Close)
    }),
    case("not HTTP", NOT_HTTP, NOT_HTTP, |_, _, to| {
        to.write_all(&[0, 0xff].repeat(1000))?;
        Ok(Then::Close)
    }),
    case("the bare file", NOT_HTTP, NOT_HTTP, |_, served, to| {
        to.write_all(&served.bytes)?;
        Ok(Then::Close)
    }),
    case(
        "50 times 100 Continue",
        Right,
        Right,
        |asked, served, to| {
            to.write_all(&b"HTTP/1.1 100 Continue\r\n\r\n".repeat(50))?;
            right(asked, served, to)
        },
    ),
];

#[test]
fn redirects_are_followed_and_nonsense_is_refused() {
    check(CASES, &options(Duration::from_secs(10)));
}

#[test]
fn an_empty_file_is_empty() {
    let options = options(Duration::from_secs(10));
    let server = FaultServer::start(Served::default(), |asked, _, to| {
        to.write_all(&match asked.range {
            Some(_) => head(
                "416 Range Not Satisfiable",
                &["Content-Range: bytes */0", "Content-Length: 0"],
            ),
            None => head("200 OK", &["Content-Length: 0"]),
        })?;
        Ok(Then::Keep)
    });
    let remote = Remote::open(&server.url, 100, &options).unwrap();
    assert_eq!(zstn::source::Source::len_bytes(&remote), 0);
    let map = Location::url(&server.url)
        .map(&options, &|_, _| ())
        .unwrap();
    assert!(map.is_empty());
}
