//! Every fault of a server against its outcome: the right bytes, or an error that
//! says what is wrong. Never other bytes, and never a hang.

mod answers;
mod lengths;
mod retries;
mod stalls;
mod stated_lengths;
mod versions;
mod wrong_ranges;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use zstn::source::{HttpOptions, Location, Source};
use zstn::{Engine, Error, Reader};
use zstn_core::container::zstn::pack;
use zstn_core::frame::select::Effort;
use zstn_tests::checkpoint;
use zstn_tests::fault_server::{Behaviour, FaultServer, Served};
use zstn_tests::rng::Rng;

/// The outcome of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Right,
    /// An error with these words.
    Refused(&'static str),
    /// The error for a file that has changed.
    Changed,
}

use Outcome::{Changed, Refused, Right};

struct Case {
    name: &'static str,
    behaviour: Behaviour,
    /// The outcome of reading one tensor, or rows of it.
    read: Outcome,
    /// The outcome of downloading the file.
    whole: Outcome,
}

const fn case(name: &'static str, read: Outcome, whole: Outcome, behaviour: Behaviour) -> Case {
    Case {
        name,
        behaviour,
        read,
        whole,
    }
}

/// Two tensors far larger than the head of a file.
fn plain(seed: u64) -> Vec<u8> {
    let mut rng = Rng(seed);
    let (x, y) = (rng.bf16_weights(60_000), rng.bf16_weights(60_000));
    checkpoint(&[("x", "BF16", &x), ("y", "BF16", &y)])
}

/// A plain and a packed file, each with another of the same length.
fn kinds() -> [(&'static str, Served); 2] {
    let engine = Engine::new(1).unwrap();
    let packed = |seed| pack(&engine, &plain(seed), Effort::Fast).unwrap();
    let (bytes, mut other) = (packed(1), packed(2));
    other.resize(bytes.len(), 0);
    let plain = Served {
        bytes: plain(1),
        other: plain(2),
    };
    [("safetensors", plain), ("zstn", Served { bytes, other })]
}

fn options(idle: Duration) -> HttpOptions {
    let mut options = HttpOptions::default();
    options.idle_timeout = idle;
    options.give_up_after = idle * 6;
    options.first_backoff = Duration::from_millis(2);
    options.max_unsized_bytes = 4 << 20;
    options
}

fn open(url: &str, options: &HttpOptions) -> zstn::Result<Reader> {
    Reader::options()
        .http(options.clone())
        .open(Location::url(url))
}

/// Runs all `cases` at once with the limits of `options`.
fn check(cases: &[Case], options: &HttpOptions) {
    let truth = plain(1);
    let y = truth[truth.len() - 120_000..].to_vec();
    for (kind, served) in kinds() {
        thread::scope(|scope| {
            let (served, y) = (&served, &y);
            for case in cases {
                scope.spawn(move || {
                    let start = || FaultServer::start(served.clone(), case.behaviour).url;
                    let name = format!("{}, {kind}", case.name);
                    let found = soon(&name, start(), options, |url, options| {
                        Ok(open(url, options)?.read("y")?.bytes)
                    });
                    judge(&format!("{name}, get"), case.read, found, y);
                    let found = soon(&name, start(), options, |url, options| {
                        Ok(open(url, options)?.read_rows("y", 1000..51_000)?.bytes)
                    });
                    judge(
                        &format!("{name}, rows"),
                        case.read,
                        found,
                        &y[2000..102_000],
                    );
                    let found = soon(&name, start(), options, |url, options| {
                        let map = Location::url(url).map(options, &|_, _| ())?;
                        Ok(map.read(0..map.len_bytes())?.into_owned())
                    });
                    judge(&format!("{name}, whole"), case.whole, found, &served.bytes);
                });
            }
        });
    }
}

/// Does `work`. Panics if it does not end.
fn soon(
    name: &str,
    url: String,
    options: &HttpOptions,
    work: fn(&str, &HttpOptions) -> zstn::Result<Vec<u8>>,
) -> zstn::Result<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    let options = options.clone();
    thread::spawn(move || send.send(work(&url, &options)));
    let hangs = |error| panic!("{name}: does not end ({error})");
    receive
        .recv_timeout(Duration::from_secs(300))
        .unwrap_or_else(hangs)
}

fn judge(name: &str, expected: Outcome, found: zstn::Result<Vec<u8>>, truth: &[u8]) {
    match (expected, found) {
        (Right, Ok(bytes)) => assert!(bytes == truth, "{name}: other bytes"),
        (Right, Err(error)) => panic!("{name}: {error}"),
        (_, Ok(bytes)) => panic!("{name}: {} bytes, not {expected:?}", bytes.len()),
        (Changed, Err(error)) => {
            assert!(matches!(error, Error::Changed { .. }), "{name}: {error}");
        }
        (Refused(words), Err(error)) => {
            let text = error.to_string();
            assert!(text.contains(words), "{name}: no \"{words}\" in: {text}");
            assert!(text.contains("http://127.0.0.1"), "{name}: {text}");
        }
    }
}
