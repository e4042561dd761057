//! Files that are replaced while they are read.

use std::io::{Result, Write};
use std::net::TcpStream;
use std::time::Duration;

use zstn_tests::fault_server::{
    Asked, ETAG, FaultServer, Served, Then, begin, head, part_head, right, right_parts, send,
    whole_head,
};

use super::{Case, Changed, Right, case, check, kinds, open, options};

/// The right answer of a server whose file is `other`, with these validators,
/// and which compares or ignores `If-Range`.
fn other(asked: &Asked, served: &Served, to: &mut TcpStream, line: &str, by: bool) -> Result<Then> {
    let body = &served.other;
    let ignored = by && asked.if_range.is_some();
    match asked.range.clone().filter(|_| !ignored) {
        Some(range) => {
            let said = format!(
                "Content-Range: bytes {}-{}/{}",
                range.start,
                range.end - 1,
                body.len()
            );
            let length = format!("Content-Length: {}", range.len());
            to.write_all(&head("206 Partial Content", &[&said, &length, line]))?;
            to.write_all(&body[range])?;
        }
        None => {
            let length = format!("Content-Length: {}", body.len());
            to.write_all(&head("200 OK", &[&length, line]))?;
            to.write_all(body)?;
        }
    }
    Ok(Then::Keep)
}

/// Answers as `right` does, with other validators.
fn with_lines(asked: &Asked, served: &Served, to: &mut TcpStream, lines: &str) -> Result<Then> {
    let (head, body) = right_parts(asked, served);
    let head = String::from_utf8_lossy(&head).replace(ETAG, lines);
    to.write_all(head.replace("\r\n\r\n\r\n", "\r\n\r\n").as_bytes())?;
    to.write_all(&body)?;
    Ok(Then::Keep)
}

const MONDAY: &str = "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT";
const TUESDAY: &str = "Last-Modified: Tue, 02 Jan 2024 00:00:00 GMT";

/// Returns whether this is the first request for many bytes: for a range, the
/// second of all, since the first one opens the file.
fn breaks_off(asked: &Asked) -> bool {
    match asked.number {
        1 => asked.range.is_none(),
        2 => asked.if_range.is_some() || asked.range.is_none(),
        _ => false,
    }
}

/// Answers correctly up to the middle of the body.
fn break_off(asked: &Asked, served: &Served, to: &mut TcpStream, then: Then) -> Result<Then> {
    begin(asked, served, to, 50_000)?;
    Ok(then)
}

const CASES: &[Case] = &[
    case(
        "another ETag",
        Changed,
        Right,
        |asked, served, to| match asked.number {
            1 => right(asked, served, to),
            _ => other(asked, served, to, "ETag: \"v2\"", false),
        },
    ),
    case(
        "another ETag, If-Range honoured",
        Changed,
        Right,
        |asked, served, to| match asked.number {
            1 => right(asked, served, to),
            _ => other(asked, served, to, "ETag: \"v2\"", true),
        },
    ),
    case(
        "a weak ETag for a strong one",
        Changed,
        Right,
        |asked, served, to| match asked.number {
            1 => right(asked, served, to),
            _ => other(asked, served, to, "ETag: W/\"v1\"", false),
        },
    ),
    case(
        "another weak ETag",
        Changed,
        Right,
        |asked, served, to| match asked.number {
            1 => with_lines(asked, served, to, "ETag: W/\"v1\""),
            _ => other(asked, served, to, "ETag: W/\"v2\"", false),
        },
    ),
    case(
        "another date",
        Changed,
        Right,
        |asked, served, to| match asked.number {
            1 => with_lines(asked, served, to, MONDAY),
            _ => other(asked, served, to, TUESDAY, false),
        },
    ),
    case(
        "no date any more",
        Changed,
        Right,
        |asked, served, to| match asked.number {
            1 => with_lines(asked, served, to, MONDAY),
            _ => other(asked, served, to, "X: y", false),
        },
    ),
    case("the same weak ETag", Right, Right, |asked, served, to| {
        with_lines(asked, served, to, "ETag: W/\"v1\"")
    }),
    case("no validators at all", Right, Right, |asked, served, to| {
        with_lines(asked, served, to, "X: y")
    }),
    case(
        "another length",
        Changed,
        Right,
        |asked, served, to| match &asked.range {
            Some(range) if asked.number > 1 => send(
                to,
                &part_head(range, served.bytes.len() + 8, range.len()),
                &served.bytes[range.clone()],
            ),
            _ => right(asked, served, to),
        },
    ),
    case(
        "shorter than the range",
        Changed,
        Right,
        |asked, served, to| match asked.number {
            1 => right(asked, served, to),
            _ => send(
                to,
                &head(
                    "416 Range Not Satisfiable",
                    &["Content-Range: bytes */10", "Content-Length: 0"],
                ),
                b"",
            ),
        },
    ),
    case(
        "another ETag after a break",
        Changed,
        Changed,
        |asked, served, to| match breaks_off(asked) {
            true => break_off(asked, served, to, Then::Reset),
            false if asked.number == 1 => right(asked, served, to),
            false => other(asked, served, to, "ETag: \"v2\"", false),
        },
    ),
    case(
        "a break, then the whole of another file",
        Changed,
        Changed,
        |asked, served, to| match breaks_off(asked) {
            true => break_off(asked, served, to, Then::Close),
            false if asked.number == 1 => right(asked, served, to),
            false => other(asked, served, to, "ETag: \"v2\"", true),
        },
    ),
    case(
        "a break, then ranges are ignored",
        super::Refused("ignores range requests"),
        Right,
        |asked, served, to| match breaks_off(asked) {
            true => break_off(asked, served, to, Then::Close),
            false if asked.number == 1 => right(asked, served, to),
            false => send(to, &whole_head(served.bytes.len()), &served.bytes),
        },
    ),
    case(
        "a break without validators",
        Right,
        Right,
        |asked, served, to| {
            let break_at = 1 + usize::from(asked.range.is_some());
            if asked.number == break_at {
                let (head, body) = right_parts(asked, served);
                let head = String::from_utf8_lossy(&head).replace(ETAG, "X: y");
                to.write_all(head.as_bytes())?;
                // A part of another version, which nothing reveals: must not be joined.
                let wrong: Vec<u8> = body.iter().map(|byte| !byte).collect();
                to.write_all(&wrong[..10_000])?;
                return Ok(Then::Close);
            }
            with_lines(asked, served, to, "X: y")
        },
    ),
];

#[test]
fn a_changed_file_is_an_error_and_never_a_mix() {
    check(CASES, &options(Duration::from_secs(10)));
}

#[test]
fn later_ranges_are_conditional_and_go_on_where_they_broke_off() {
    for (kind, served) in kinds() {
        let server = FaultServer::start(served, |asked, served, to| {
            if asked.number == 2 {
                begin(asked, served, to, 20_000)?;
                return Ok(Then::Close);
            }
            right(asked, served, to)
        });
        let options = options(Duration::from_secs(10));
        let reader = open(&server.url, &options).unwrap();
        reader.read("y").unwrap();
        let log = server.log();
        assert_eq!(log[0].if_range, None);
        let later = log[1..].iter();
        assert!(
            later
                .clone()
                .all(|asked| asked.if_range.as_deref() == Some("\"v1\"")),
            "{kind}"
        );
        let broken = log[1].range.clone().unwrap();
        let resumed = log[2].range.clone().unwrap();
        assert_eq!(
            resumed,
            broken.start + 20_000.min(broken.len())..broken.end,
            "{kind}"
        );
    }
}
