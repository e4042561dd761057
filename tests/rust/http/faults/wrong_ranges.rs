//! Answers with other bytes than the requested range.

use std::io::Write;
use std::time::Duration;

use zstn_tests::fault_server::{
    ETAG, Then, begin, head, part_head, pour, right, right_parts, send, whole_head,
};

use super::{Case, Outcome, Refused, Right, case, check, kinds, options};

const OTHER: Outcome = Refused("other bytes than were asked for");
const TOO_LONG: Outcome = Refused("the server sent more than the");
const IGNORED: Outcome = Refused("ignores range requests");

const CASES: &[Case] = &[
    case("all well", Right, Right, right),
    case(
        "a range that begins earlier",
        OTHER,
        Right,
        |asked, served, to| match &asked.range {
            Some(range) if asked.number > 1 => {
                let shifted = range.start - 2..range.end - 2;
                send(
                    to,
                    &part_head(&shifted, served.bytes.len(), shifted.len()),
                    &served.bytes[shifted],
                )
            }
            _ => right(asked, served, to),
        },
    ),
    case(
        "always the first bytes",
        OTHER,
        Right,
        |asked, served, to| match &asked.range {
            Some(range) if asked.number > 1 => {
                let first = 0..range.len();
                send(
                    to,
                    &part_head(&first, served.bytes.len(), first.len()),
                    &served.bytes[first],
                )
            }
            _ => right(asked, served, to),
        },
    ),
    case(
        "half of what was asked for",
        Right,
        Right,
        |asked, served, to| match &asked.range {
            Some(range) => {
                let half = range.start..range.start + range.len().div_ceil(2);
                send(
                    to,
                    &part_head(&half, served.bytes.len(), half.len()),
                    &served.bytes[half],
                )
            }
            None => right(asked, served, to),
        },
    ),
    case(
        "one byte of what was asked for",
        Refused("less than was asked for 64 times"),
        Right,
        |asked, served, to| match &asked.range {
            Some(range) if asked.number > 1 => {
                let byte = range.start..range.start + 1;
                send(
                    to,
                    &part_head(&byte, served.bytes.len(), 1),
                    &served.bytes[byte],
                )
            }
            _ => right(asked, served, to),
        },
    ),
    case(
        "half, and nothing to tell versions apart",
        Refused("nothing (ETag"),
        Right,
        |asked, served, to| match &asked.range {
            Some(range) => {
                let half = range.start..range.start + range.len().div_ceil(2);
                let said = format!(
                    "Content-Range: bytes {}-{}/{}",
                    half.start,
                    half.end - 1,
                    served.bytes.len()
                );
                send(
                    to,
                    &head(
                        "206 Partial Content",
                        &[&said, &format!("Content-Length: {}", half.len())],
                    ),
                    &served.bytes[half],
                )
            }
            None => right(asked, served, to),
        },
    ),
    case(
        "a range that ends later",
        OTHER,
        Right,
        |asked, served, to| match &asked.range {
            Some(range) if asked.number > 1 => {
                let longer = range.start - 1..range.end;
                // Too long at its end, by beginning one byte too early in a file
                // where that is the last range.
                let said = part_head(&(range.start..range.end), served.bytes.len(), longer.len());
                let said = String::from_utf8_lossy(&said).replace(
                    &format!("bytes {}-", range.start),
                    &format!("bytes {}-", longer.start),
                );
                to.write_all(said.as_bytes())?;
                to.write_all(&served.bytes[longer])?;
                Ok(Then::Keep)
            }
            Some(range) => {
                let longer = range.start..range.end + 100;
                send(
                    to,
                    &part_head(&longer, served.bytes.len(), longer.len()),
                    &served.bytes[longer],
                )
            }
            None => right(asked, served, to),
        },
    ),
    case(
        "a body longer than its range",
        TOO_LONG,
        Right,
        |asked, served, to| match &asked.range {
            Some(range) => {
                to.write_all(&part_head(range, served.bytes.len(), range.len() + 1))?;
                send(to, &served.bytes[range.clone()], b"x")
            }
            None => right(asked, served, to),
        },
    ),
    case(
        "a body without an end",
        TOO_LONG,
        Right,
        |asked, served, to| match &asked.range {
            Some(range) => {
                let said = format!(
                    "Content-Range: bytes {}-{}/{}",
                    range.start,
                    range.end - 1,
                    served.bytes.len()
                );
                to.write_all(&head(
                    "206 Partial Content",
                    &[&said, "Connection: close", ETAG],
                ))?;
                pour(to, &[0; 65536])
            }
            None => right(asked, served, to),
        },
    ),
    case(
        "no Content-Range",
        Refused("does not say which bytes"),
        Right,
        |asked, served, to| match &asked.range {
            Some(range) if asked.number > 1 => send(
                to,
                &head(
                    "206 Partial Content",
                    &[&format!("Content-Length: {}", range.len()), ETAG],
                ),
                &served.bytes[range.clone()],
            ),
            _ => right(asked, served, to),
        },
    ),
    case(
        "no Content-Range at first",
        Refused("nor how long the file is"),
        Right,
        |asked, served, to| match &asked.range {
            Some(range) => send(
                to,
                &head(
                    "206 Partial Content",
                    &[&format!("Content-Length: {}", range.len()), ETAG],
                ),
                &served.bytes[range.clone()],
            ),
            None => right(asked, served, to),
        },
    ),
    case(
        "several ranges",
        Refused("multipart/byteranges"),
        Right,
        |asked, served, to| match &asked.range {
            Some(range) => {
                let kind = "Content-Type: multipart/byteranges; boundary=x";
                send(
                    to,
                    &head(
                        "206 Partial Content",
                        &[kind, &format!("Content-Length: {}", range.len())],
                    ),
                    &served.bytes[range.clone()],
                )
            }
            None => right(asked, served, to),
        },
    ),
    case("always the whole file", IGNORED, Right, |_, served, to| {
        send(to, &whole_head(served.bytes.len()), &served.bytes)
    }),
    case(
        "the whole file later",
        IGNORED,
        Right,
        |asked, served, to| match asked.number {
            1 => right(asked, served, to),
            _ => send(to, &whole_head(served.bytes.len()), &served.bytes),
        },
    ),
    case(
        "416 whatever is asked",
        Refused("416"),
        Refused("416"),
        |_, _, to| {
            send(
                to,
                &head("416 Range Not Satisfiable", &["Content-Length: 0"]),
                b"",
            )
        },
    ),
    case(
        "a body cut short every time",
        Refused("the connection ended after"),
        Right,
        |asked, served, to| {
            if asked.range.is_none() {
                return right(asked, served, to);
            }
            begin(asked, served, to, 10)?;
            Ok(Then::Close)
        },
    ),
    case(
        "a body cut short that says so",
        Right,
        Right,
        |asked, served, to| match &asked.range {
            Some(range) if asked.number == 2 => send(
                to,
                &part_head(range, served.bytes.len(), 10),
                &right_parts(asked, served).1[..10],
            ),
            _ => right(asked, served, to),
        },
    ),
];

#[test]
fn other_bytes_are_never_taken_for_those_asked_for() {
    check(CASES, &options(Duration::from_secs(10)));
}

#[test]
fn a_flipped_bit_in_a_packed_file_is_found() {
    let [_, (_, served)] = kinds();
    let server = zstn_tests::fault_server::FaultServer::start(served, |asked, served, to| {
        let (head, mut body) = right_parts(asked, served);
        if asked.number > 2 {
            let middle = body.len() / 2;
            body[middle] ^= 1;
        }
        send(to, &head, &body)
    });
    let reader = super::open(&server.url, &options(Duration::from_secs(10))).unwrap();
    let read = ["x", "y"].map(|name| reader.read(name).map(|tensor| tensor.bytes));
    let truth = super::plain(1);
    let data = &truth[truth.len() - 240_000..];
    assert!(read.iter().any(|read| read.is_err()));
    for (read, truth) in read.iter().zip([&data[..120_000], &data[120_000..]]) {
        assert!(read.as_ref().map_or(true, |bytes| bytes == truth));
    }
}
