//! Faults that depend on the exact order of events.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use zstn::Reader;
use zstn::source::{HttpOptions, Location, Remote, Source};
use zstn_tests::fault_server::{
    ETAG, FaultServer, Served, Then, begin, head, hold, right, right_parts, send, whole_head,
};
use zstn_tests::faults::Kind;
use zstn_tests::faults::server::{plain, served, tensor};

use super::{STALL_LIMITS, options};

const KINDS: [Kind; 2] = [Kind::Safetensors, Kind::Zstn];

fn open(url: &str, options: &HttpOptions) -> zstn::Result<Reader> {
    Reader::options()
        .http(options.clone())
        .open(Location::url(url))
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
    assert_eq!(Source::len_bytes(&remote), 0);
    let copy = Location::url(&server.url)
        .fetch(&options, &|_, _| ())
        .unwrap();
    assert_eq!(copy.len_bytes(), 0);
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

#[test]
fn waiting_has_an_end_even_if_every_attempt_brings_something() {
    // On a busy machine, a correct answer may exceed the first timeout.
    let [limit, longer] = STALL_LIMITS;
    let problem = waits_that_have_no_end(limit).and_then(|_| waits_that_have_no_end(longer));
    assert_eq!(problem, None);
}

/// Returns the first file format whose reading exceeds the overall time limit; `None`
/// if none does.
fn waits_that_have_no_end(idle: Duration) -> Option<String> {
    let mut options = options(idle);
    options.give_up_after = idle * 11 / 6;
    for kind in KINDS {
        let served = served(kind);
        let server = FaultServer::share(served.clone(), |asked, served, to| {
            if asked.number > 1 {
                let (_, body) = right_parts(asked, served);
                begin(asked, served, to, body.len() / 2)?;
                hold(to);
            }
            right(asked, served, to)
        });
        let read = open(&server.url, &options).and_then(|reader| reader.read("y"));
        let requests = server.log().len();
        if read.is_ok() || requests > 3 {
            return Some(format!("{kind:?}: {requests} requests"));
        }

        let server = FaultServer::share(served, |_, served, to| {
            let half = &served.bytes[..served.bytes.len() / 2];
            send(to, &whole_head(served.bytes.len()), half)?;
            hold(to);
            Ok(Then::Close)
        });
        let whole = Location::url(&server.url).fetch(&options, &|_, _| ());
        let requests = server.log().len();
        if whole.is_ok() || requests > 2 {
            return Some(format!("{kind:?}, whole: {requests} requests"));
        }
    }
    None
}

#[test]
fn later_ranges_are_conditional_and_go_on_where_they_broke_off() {
    for kind in KINDS {
        let server = FaultServer::share(served(kind), |asked, served, to| {
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
            "{kind:?}"
        );
        let broken = log[1].range.clone().unwrap();
        let resumed = log[2].range.clone().unwrap();
        assert_eq!(
            resumed,
            broken.start + 20_000.min(broken.len())..broken.end,
            "{kind:?}"
        );
    }
}

#[test]
fn a_flipped_bit_in_a_packed_file_is_found() {
    let server = FaultServer::share(served(Kind::Zstn), |asked, served, to| {
        let (head, mut body) = right_parts(asked, served);
        if asked.number > 2 {
            let middle = body.len() / 2;
            body[middle] ^= 1;
        }
        send(to, &head, &body)
    });
    let reader = open(&server.url, &options(Duration::from_secs(10))).unwrap();
    let read = ["x", "y"].map(|name| (name, reader.read(name).map(|tensor| tensor.bytes)));
    let truth = plain(1);
    assert!(read.iter().any(|(_, read)| read.is_err()));
    for (name, read) in &read {
        let is_right = |bytes: &Vec<u8>| bytes == tensor(&truth, name);
        assert!(read.as_ref().map_or(true, is_right));
    }
}

#[test]
fn a_part_that_cannot_be_known_to_be_of_the_same_file_is_dropped() {
    for kind in KINDS {
        let server = FaultServer::share(served(kind), |asked, served, to| {
            let (head, body) = right_parts(asked, served);
            let head = String::from_utf8_lossy(&head).replace(ETAG, "X: y");
            to.write_all(head.as_bytes())?;
            let break_at = 1 + usize::from(asked.range.is_some());
            if asked.number == break_at {
                // Bytes of another version, sent without any sign of the change.
                let wrong: Vec<u8> = body.iter().map(|byte| !byte).collect();
                to.write_all(&wrong[..10_000])?;
                return Ok(Then::Close);
            }
            to.write_all(&body)?;
            Ok(Then::Keep)
        });
        let options = options(Duration::from_secs(10));
        let read = open(&server.url, &options).and_then(|reader| reader.read("y"));
        assert!(read.unwrap().bytes == tensor(&plain(1), "y"), "{kind:?}");
    }
}
