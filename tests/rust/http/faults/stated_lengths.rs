//! Answers to ranges that state the length of the file wrongly, or not at all.

use std::fmt::Display;
use std::io;
use std::net::TcpStream;
use std::time::Duration;

use zstn_tests::fault_server::{Asked, Served, Then, head, part_head, right, send};

use super::{Case, Outcome, Refused, Right, case, check, options};

const UNSAID: Outcome = Refused("does not say how long the file is");
const CANNOT_BE: Outcome = Refused("what cannot be");

/// Answers a range correctly, but states `length` as that of the file.
fn state(
    asked: &Asked,
    served: &Served,
    to: &mut TcpStream,
    length: impl Display,
) -> io::Result<Then> {
    match &asked.range {
        Some(range) => send(
            to,
            &part_head(range, length, range.len()),
            &served.bytes[range.clone()],
        ),
        None => right(asked, served, to),
    }
}

const CASES: &[Case] = &[
    case(
        "a length that only HEAD states",
        Right,
        Right,
        |asked, served, to| state(asked, served, to, "*"),
    ),
    case(
        "a length that nothing states",
        UNSAID,
        Right,
        |asked, served, to| match asked.range.is_none() && asked.method == "HEAD" {
            true => send(
                to,
                &head("405 Method Not Allowed", &["Content-Length: 0"]),
                b"",
            ),
            false => state(asked, served, to, "*"),
        },
    ),
    case(
        "a length of 2^64 - 1",
        CANNOT_BE,
        Right,
        |asked, served, to| state(asked, served, to, u64::MAX),
    ),
    case("a length of -5", CANNOT_BE, Right, |asked, served, to| {
        state(asked, served, to, -5)
    }),
];

#[test]
fn a_missing_length_is_asked_for_and_an_impossible_one_refused() {
    check(CASES, &options(Duration::from_secs(10)));
}
