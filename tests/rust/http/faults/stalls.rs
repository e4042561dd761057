//! Servers that stall.

use std::io::Write;
use std::time::Duration;

use zstn::source::Location;
use zstn_tests::fault_server::{
    FaultServer, Then, begin, drip, hold, right, right_parts, send, whole_head,
};

use super::{Case, Refused, Right, case, check, kinds, open, options};

const STALLED: super::Outcome = Refused("next to nothing came from the server");

const CASES: &[Case] = &[
    case("no answer", STALLED, STALLED, |_, _, to| {
        hold(to);
        Ok(Then::Close)
    }),
    case("no later answer", STALLED, STALLED, |asked, served, to| {
        if asked.is_late() {
            hold(to);
        }
        right(asked, served, to)
    }),
    case("no answer once", Right, Right, |asked, served, to| {
        let silent = asked.number == 1 + usize::from(asked.range.is_some());
        if silent {
            hold(to);
        }
        right(asked, served, to)
    }),
    case("a head byte by byte", STALLED, STALLED, |_, _, to| {
        to.write_all(b"HTTP/1.1 206 Partial Content\r\nX: ")?;
        drip(to, std::iter::repeat(b'a'))
    }),
    case(
        "a body that halts",
        STALLED,
        STALLED,
        |asked, served, to| {
            if asked.is_late() {
                begin(asked, served, to, 100)?;
                hold(to);
            }
            right(asked, served, to)
        },
    ),
    case(
        "a first body that halts",
        STALLED,
        STALLED,
        |asked, served, to| {
            begin(asked, served, to, 100)?;
            hold(to);
            Ok(Then::Close)
        },
    ),
    case(
        "a body that halts once",
        Right,
        Right,
        |asked, served, to| {
            if asked.number == 1 + usize::from(asked.range.is_some()) {
                begin(asked, served, to, 1000)?;
                hold(to);
            }
            right(asked, served, to)
        },
    ),
    case(
        "a body byte by byte",
        STALLED,
        STALLED,
        |asked, served, to| {
            if !asked.is_late() {
                return right(asked, served, to);
            }
            let (head, body) = right_parts(asked, served);
            to.write_all(&head)?;
            drip(to, body)
        },
    ),
];

#[test]
fn what_stalls_is_tried_again_and_given_up() {
    check(CASES, &options(Duration::from_millis(300)));
}

#[test]
fn waiting_has_an_end_even_if_every_attempt_brings_something() {
    let mut options = options(Duration::from_millis(300));
    options.give_up_after = Duration::from_millis(550);
    for (kind, served) in kinds() {
        let server = FaultServer::start(served.clone(), |asked, served, to| {
            if asked.number > 1 {
                let (_, body) = right_parts(asked, served);
                begin(asked, served, to, body.len() / 2)?;
                hold(to);
            }
            right(asked, served, to)
        });
        let read = open(&server.url, &options).and_then(|reader| reader.read("y"));
        assert!(read.is_err() && server.log().len() <= 3, "{kind}");

        let server = FaultServer::start(served, |_, served, to| {
            let half = &served.bytes[..served.bytes.len() / 2];
            send(to, &whole_head(served.bytes.len()), half)?;
            hold(to);
            Ok(Then::Close)
        });
        let whole = Location::url(&server.url).map(&options, &|_, _| ());
        assert!(whole.is_err() && server.log().len() <= 2, "{kind}");
    }
}
