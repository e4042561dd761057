//! Answers to ranges that state the length of the file wrongly, or not at all.

use std::time::Duration;

use zstn_tests::fault_server::{head, part_head, right, send};

use super::{Case, Outcome, Refused, Right, case, check, options};

const UNSAID: Outcome = Refused("does not say how long the file is");
const CANNOT_BE: Outcome = Refused("what cannot be");

const CASES: &[Case] = &[
    case(
        "a length that only HEAD states",
        Right,
        Right,
        |asked, served, to| match &asked.range {
            Some(range) => send(
                to,
                &part_head(range, "*", range.len()),
                &served.bytes[range.clone()],
            ),
            None => right(asked, served, to),
        },
    ),
    case(
        "a length that nothing states",
        UNSAID,
        Right,
        |asked, served, to| match &asked.range {
            Some(range) => send(
                to,
                &part_head(range, "*", range.len()),
                &served.bytes[range.clone()],
            ),
            None if asked.method == "HEAD" => send(
                to,
                &head("405 Method Not Allowed", &["Content-Length: 0"]),
                b"",
            ),
            None => right(asked, served, to),
        },
    ),
    case(
        "a length of 2^64 - 1",
        CANNOT_BE,
        Right,
        |asked, served, to| match &asked.range {
            Some(range) => send(
                to,
                &part_head(range, u64::MAX, range.len()),
                &served.bytes[range.clone()],
            ),
            None => right(asked, served, to),
        },
    ),
    case(
        "a length of -5",
        CANNOT_BE,
        Right,
        |asked, served, to| match &asked.range {
            Some(range) => send(
                to,
                &part_head(range, -5, range.len()),
                &served.bytes[range.clone()],
            ),
            None => right(asked, served, to),
        },
    ),
];

#[test]
fn a_missing_length_is_asked_for_and_an_impossible_one_refused() {
    check(CASES, &options(Duration::from_secs(10)));
}
