//! Runs the server faults in `tests/faults/server.json` against a store: reading
//! returns the correct bytes or an error, whatever a server that speaks S3 answers.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use zstn_store::{Address, Environment, Object, Result, StoreOptions};
use zstn_tests::faults;
use zstn_tests::faults::{CaseServer, Cell, Kind, Operation, Run, Side, Table, server};
use zstn_tests::tier::{self, chosen};

/// Number of concurrent runs; most of them wait for a server.
const RUNS_AT_ONCE: usize = 48;
const HEAD_BYTES: u64 = 32 << 10;

/// Idle timeout for stalled cells; all other cells do not depend on time.
const STALL_LIMIT: Duration = Duration::from_millis(700);
const NO_LIMIT: Duration = Duration::from_secs(15);

/// Cases that are errors here, although the table expects the correct bytes. Stores
/// always announce lengths and dates, send all requested bytes, and answer every range.
/// They redirect only to report that the bucket is elsewhere, and such redirects are
/// not followed, because session tokens would be sent along.
const STRICTER: &[&str] = &[
    "a redirect",
    "chunks",
    "no length",
    "half of what was asked for",
    "1000 bytes of what was asked for",
    "one byte of what was asked for",
    "a length that only HEAD states",
    "Last-Modified later than the answer",
    "ranges are ignored later",
    "a break, then ranges are ignored",
    // A store names the versions of an object itself, so an object with another ETag is
    // always another object.
    "a replica",
    "a break, then the rest of another version",
    "a break, then the whole of another version",
    "a break without ranges, then another version",
    "another strong ETag",
    "another weak ETag",
    "a weak ETag for a strong one",
    "another Last-Modified",
    "no Last-Modified any more",
];

/// Returns options for a store whose only server is the one in `url`.
fn options(url: &str, limit: Duration) -> StoreOptions {
    let origin = url.trim_end_matches("/model");
    let environment = [
        ("AWS_ENDPOINT_URL", origin),
        ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "true"),
        ("AWS_SKIP_SIGNATURE", "true"),
        ("AWS_ALLOW_HTTP", "true"),
    ];
    let mut options = StoreOptions::with_environment(Environment::from_pairs(environment));
    options.limits.idle_timeout = limit;
    options.limits.give_up_after = limit * 20;
    options
}

/// Reads the head and then the rest of an object.
fn read(url: &str, limit: Duration) -> Result<Vec<u8>> {
    let address = Address::parse("s3://bucket/model")?;
    let object = Object::open_with_head(&address, HEAD_BYTES, &options(url, limit))?;
    let rest = object.read(HEAD_BYTES..object.len_bytes())?;
    Ok([object.head(), &rest].concat())
}

fn is_stricter(case: &str) -> bool {
    STRICTER.iter().any(|start| case.starts_with(start))
}

/// Returns whether a client may legitimately see a mixture of both versions in this
/// cell, or can only detect one by the checksums of tensors.
fn is_mixture(cell: &Cell) -> bool {
    cell.expected.bytes.as_deref() == Some("other") || cell.case.starts_with("other bytes")
}

fn problem(table: &Table, cell: &Cell, kind: Kind) -> Option<String> {
    let case = table.case(&cell.case).unwrap();
    let server = CaseServer::start(case, cell.operation, cell.phase, cell.times, kind);
    let limit = if cell.stalls { STALL_LIMIT } else { NO_LIMIT };
    let (send, receive) = mpsc::channel();
    let url = server.url.clone();
    thread::spawn(move || send.send(read(&url, limit)));
    let Ok(found) = receive.recv_timeout(Duration::from_secs(200)) else {
        return Some("does not end".into());
    };
    if server.log().iter().any(|request| request.is_other_origin) {
        return Some("followed a redirect".into());
    }
    let served = server::served(kind);
    match found {
        Ok(bytes) if bytes == served.bytes => None,
        Ok(bytes) => Some(format!("{} wrong bytes", bytes.len())),
        Err(error) if cell.expected.bytes.is_some() && !is_stricter(&cell.case) => {
            Some(error.to_string())
        }
        Err(_) => None,
    }
}

#[test]
fn every_fault_of_a_server_gives_the_right_bytes_or_an_error() {
    let table = Table::load();
    let cells = table.cells(Side::Native);
    let cells = cells.iter();
    let cells = cells.filter(|cell| cell.operation == Operation::Read && !is_mixture(cell));
    let attempts: Vec<(&Cell, Kind)> = cells
        .flat_map(|cell| cell.kinds.iter().map(move |kind| (cell, *kind)))
        .collect();
    let attempts = chosen(attempts, |(cell, kind)| {
        let times = format!("{:?} {:?}", cell.phase, cell.times);
        vec![cell.case.clone(), times, format!("{kind:?}")]
    });
    let next = AtomicUsize::new(0);
    let runs = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..RUNS_AT_ONCE {
            scope.spawn(|| {
                while let Some((cell, kind)) = attempts.get(next.fetch_add(1, SeqCst)) {
                    let problem = problem(&table, cell, *kind);
                    runs.lock().unwrap().push(Run {
                        case: cell.case.clone(),
                        surface: "native store".into(),
                        problem: problem.map(|problem| format!("{cell}, {kind:?}: {problem}")),
                    });
                }
            });
        }
    });
    let runs = runs.into_inner().unwrap();
    faults::write_report("store", &runs);
    let problems: Vec<_> = runs.iter().filter_map(|run| run.problem.clone()).collect();
    assert!(
        problems.is_empty(),
        "{} of {}:\n{}",
        problems.len(),
        runs.len(),
        problems.join("\n")
    );
    assert!(runs.len() > tier::count(20, 100));
}
