//! Whole files whose end is uncertain.

use std::io::Write;
use std::time::Duration;

use zstn_tests::fault_server::{ETAG, Then, begin, head, pour, right, send};

use super::{Case, Outcome, Refused, Right, case, check, options};

const IGNORED: Outcome = Refused("ignores range requests");
const ENDLESS: Outcome = Refused("announces no length");

const CASES: &[Case] = &[
    case("chunks", IGNORED, Right, |_, served, to| {
        to.write_all(&head("200 OK", &["Transfer-Encoding: chunked", ETAG]))?;
        for chunk in served.bytes.chunks(50_000) {
            to.write_all(format!("{:x}\r\n", chunk.len()).as_bytes())?;
            to.write_all(chunk)?;
            to.write_all(b"\r\n")?;
        }
        to.write_all(b"0\r\n\r\n")?;
        Ok(Then::Keep)
    }),
    case(
        "chunks without a last one",
        IGNORED,
        Refused("the connection ended after"),
        |_, served, to| {
            to.write_all(&head("200 OK", &["Transfer-Encoding: chunked", ETAG]))?;
            for chunk in served.bytes.chunks(50_000).take(2) {
                to.write_all(format!("{:x}\r\n", chunk.len()).as_bytes())?;
                to.write_all(chunk)?;
                to.write_all(b"\r\n")?;
            }
            Ok(Then::Close)
        },
    ),
    case(
        "chunks without an end",
        IGNORED,
        Refused("without announcing how many"),
        |_, _, to| {
            to.write_all(&head("200 OK", &["Transfer-Encoding: chunked"]))?;
            pour(
                to,
                &[b"8000\r\n".as_slice(), &[0; 0x8000], b"\r\n"].concat(),
            )
        },
    ),
    case(
        "chunks that are none",
        Refused("not valid HTTP"),
        Refused("not valid HTTP"),
        |asked, served, to| {
            let status = if asked.range.is_some() {
                "206 Partial Content"
            } else {
                "200 OK"
            };
            let said = format!("Content-Range: bytes 0-32767/{}", served.bytes.len());
            to.write_all(&head(status, &["Transfer-Encoding: chunked", &said]))?;
            to.write_all(b"zzzz\r\nhello")?;
            Ok(Then::Close)
        },
    ),
    case(
        "two codings",
        IGNORED,
        Refused("coding unknown here"),
        |asked, _, to| {
            let status = if asked.range.is_some() {
                "200 OK\r\nContent-Length: 9"
            } else {
                "200 OK\r\nTransfer-Encoding: gzip, chunked"
            };
            to.write_all(&head(status, &[ETAG]))?;
            Ok(Then::Close)
        },
    ),
    case(
        "cut off, its length never announced",
        IGNORED,
        ENDLESS,
        |_, served, to| {
            to.write_all(&head("200 OK", &["Connection: close"]))?;
            to.write_all(&served.bytes[..served.bytes.len() / 3 * 2])?;
            Ok(Then::Close)
        },
    ),
    case("endless", IGNORED, ENDLESS, |_, _, to| {
        to.write_all(&head("200 OK", &["Connection: close"]))?;
        pour(to, &[0; 65536])
    }),
    case(
        "cut off, its length announced to ranges alone",
        Right,
        Right,
        |asked, served, to| {
            if asked.range.is_some() {
                return right(asked, served, to);
            }
            to.write_all(&head("200 OK", &["Connection: close", ETAG]))?;
            to.write_all(&served.bytes[..served.bytes.len() / 3 * 2])?;
            Ok(Then::Close)
        },
    ),
    case(
        "cut off every time, ranges ignored",
        IGNORED,
        Refused("the connection ended after"),
        |asked, served, to| {
            let mut asked = asked.clone();
            asked.range = None;
            begin(&asked, served, to, 100_000)?;
            Ok(Then::Close)
        },
    ),
    case(
        "cut off again and again, with ranges",
        Right,
        Right,
        |asked, served, to| {
            if asked.number <= 3 {
                begin(asked, served, to, 10_000)?;
                return Ok(Then::Reset);
            }
            right(asked, served, to)
        },
    ),
    case("more than announced", Right, Right, |asked, served, to| {
        if asked.range.is_some() {
            return right(asked, served, to);
        }
        right(asked, served, to)?;
        to.write_all(b"and this")?;
        Ok(Then::Close)
    }),
    case(
        "two lengths",
        Refused("not valid HTTP"),
        Refused("not valid HTTP"),
        |_, _, to| {
            to.write_all(&head(
                "200 OK",
                &["Content-Length: 10", "Content-Length: 5"],
            ))?;
            to.write_all(b"0123456789")?;
            Ok(Then::Close)
        },
    ),
    case(
        "compressed as a whole",
        IGNORED,
        Refused("compressed (gzip)"),
        |_, served, to| {
            let length = format!("Content-Length: {}", served.bytes.len());
            send(
                to,
                &head("200 OK", &["Content-Encoding: gzip", &length]),
                &served.bytes,
            )
        },
    ),
    case(
        "compressed ranges",
        Refused("compressed (gzip)"),
        Refused("compressed (gzip)"),
        |asked, served, to| {
            let (head, body) = zstn_tests::fault_server::right_parts(asked, served);
            let head = String::from_utf8_lossy(&head).replace(ETAG, "Content-Encoding: gzip");
            to.write_all(head.as_bytes())?;
            to.write_all(&body)?;
            Ok(Then::Keep)
        },
    ),
];

#[test]
fn a_download_is_whole_or_refused() {
    check(CASES, &options(Duration::from_secs(10)));
}
