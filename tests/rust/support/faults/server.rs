//! A server with two origins that behaves as a case of the table describes, the files
//! that it serves, and the protocol by which suites in other languages use it.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use zstn::Engine;
use zstn_core::container::zstn::pack;
use zstn_core::frame::select::Effort;

use super::send::perform;
use super::table::{Answer, Case, Kind, Table};
use super::{Operation, Phase, Side, Times};
use crate::fault_server::{Asked, FaultServer, Served};
use crate::rng::Rng;
use crate::{checkpoint, lock, sha256};

/// The path of the file. Faults only affect requests for this path; the server serves
/// the same file at every other path.
pub const PATH: &str = "/model";

/// A request in the server's log.
#[derive(Debug, Clone, Serialize)]
pub struct Logged {
    /// True if the second origin received the request.
    pub is_other_origin: bool,
    /// `GET` or `HEAD`.
    pub method: String,
    /// Path of the requested URL.
    pub path: String,
    /// All headers, with lowercase names.
    pub headers: Vec<(String, String)>,
}

impl Logged {
    /// Returns the value of the header called `name`.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| &**value)
    }
}

/// A running server for one case, which stops when dropped.
#[derive(Debug)]
pub struct CaseServer {
    /// URL of the file at the first origin.
    pub url: String,
    origins: [FaultServer; 2],
    log: Arc<Mutex<Vec<Logged>>>,
}

/// Decides which answers are faulty.
#[derive(Debug)]
struct Script {
    case: Case,
    phase: Phase,
    times: Times,
    /// Number of requests for the file so far, except those on which a fault would have
    /// had no effect.
    requests: Mutex<usize>,
}

impl CaseServer {
    /// Starts a server. For [`Operation::Plain`] the server also ignores ranges,
    /// whatever the case states.
    ///
    /// # Panics
    /// If no port is free.
    #[must_use]
    pub fn start(
        case: &Case,
        operation: Operation,
        phase: Phase,
        times: Times,
        kind: Kind,
    ) -> Self {
        let mut case = case.clone();
        if operation == Operation::Plain {
            case.server.ignores.push("Range".into());
        }
        let served = served(kind);
        let log: Arc<Mutex<Vec<Logged>>> = Arc::default();
        let note = |log: &Mutex<Vec<Logged>>, asked: &Asked, is_other_origin| {
            lock(log).push(Logged {
                is_other_origin,
                method: asked.method.clone(),
                path: asked.path.clone(),
                headers: asked.headers.clone(),
            });
        };
        let (noted, right) = (Arc::clone(&log), case.server.clone());
        let other = FaultServer::share(Arc::clone(&served), move |asked, served, to| {
            note(&noted, asked, true);
            perform(&right, asked, served, "", to)
        });
        let other_origin = other.url.trim_end_matches(PATH).to_owned();
        let noted = Arc::clone(&log);
        let script = Script {
            case,
            phase,
            times,
            requests: Mutex::new(0),
        };
        let home = FaultServer::share(served, move |asked, served, to| {
            note(&noted, asked, false);
            let answer = script.answer(asked, served);
            perform(&answer, asked, served, &other_origin, to)
        });
        Self {
            url: home.url.clone(),
            origins: [home, other],
            log,
        }
    }

    /// Returns the requests received so far.
    #[must_use]
    pub fn log(&self) -> Vec<Logged> {
        lock(&self.log).clone()
    }
}

impl Drop for CaseServer {
    fn drop(&mut self) {
        self.origins.iter().for_each(FaultServer::stop);
    }
}

impl Script {
    fn answer(&self, asked: &Asked, served: &Served) -> Answer {
        let case = &self.case;
        if asked.path != PATH {
            return case.server.clone();
        }
        let mut requests = lock(&self.requests);
        let first_fault = usize::from(self.phase == Phase::Later);
        let fault = requests.checked_sub(first_fault).and_then(|number| {
            let last = case.faults.len().checked_sub(1)?;
            match self.times {
                Times::Once => case.faults.get(number),
                Times::Always => case.faults.get(number.min(last)),
            }
        });
        // Concurrent requests can arrive in any order. A fault that has no effect on
        // this request is postponed to the next one.
        let is_noticed =
            fault.is_none_or(|fault| fault.is_noticed_in(asked.range.as_ref(), served.bytes.len()));
        *requests += usize::from(is_noticed);
        drop(requests);
        let special = match (&*asked.method, &asked.range) {
            ("HEAD", _) => case.head.as_ref(),
            (_, None) => case.whole.as_ref(),
            _ => None,
        };
        match fault.or(special) {
            Some(answer) => answer.on(&case.server),
            None => case.server.clone(),
        }
    }
}

/// Length of each tensor in bytes, much larger than the file's header.
pub const TENSOR_BYTES: usize = 120_000;

/// Names of the tensors in file order. Tests read the second tensor, which is neither
/// at the start nor at the end of the file.
pub const TENSORS: [&str; 3] = ["x", "y", "z"];

/// Returns a plain checkpoint. Files made with different seeds have the same length.
#[must_use]
pub fn plain(seed: u64) -> Vec<u8> {
    let mut rng = Rng(seed);
    let bytes = TENSORS.map(|_| rng.bf16_weights(TENSOR_BYTES / 2));
    let tensors = [0, 1, 2].map(|i| (TENSORS[i], "BF16", &*bytes[i]));
    checkpoint(&tensors)
}

/// Returns the bytes of a tensor in a file made by [`plain`].
///
/// # Panics
/// If there is no such tensor.
#[must_use]
pub fn tensor<'a>(plain: &'a [u8], name: &str) -> &'a [u8] {
    let number = TENSORS.iter().position(|known| *known == name);
    let start = plain.len() - (TENSORS.len() - number.expect("a tensor")) * TENSOR_BYTES;
    &plain[start..start + TENSOR_BYTES]
}

/// The rows of a tensor that tests read.
pub const ROWS: Range<u64> = 1000..51_000;

/// The byte range of [`ROWS`] within their tensor.
pub const ROW_BYTES: Range<usize> = 2000..102_000;

/// Returns the file to serve in format `kind`, and another file of the same length.
///
/// # Panics
/// If the checkpoint cannot be packed.
#[must_use]
pub fn served(kind: Kind) -> Arc<Served> {
    static PLAIN: OnceLock<Arc<Served>> = OnceLock::new();
    static PACKED: OnceLock<Arc<Served>> = OnceLock::new();
    let plain_files = || Served {
        bytes: plain(1),
        other: plain(2),
    };
    let packed_files = || {
        let engine = Engine::new(1).expect("an engine");
        let packed = |seed| pack(&engine, &plain(seed), Effort::Fast).expect("packed");
        let (bytes, mut other) = (packed(1), packed(2));
        other.resize(bytes.len(), 0);
        Served { bytes, other }
    };
    Arc::clone(match kind {
        Kind::Safetensors => PLAIN.get_or_init(|| Arc::new(plain_files())),
        Kind::Zstn => PACKED.get_or_init(|| Arc::new(packed_files())),
    })
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Command {
    /// Returns the cells of a suite and the digests of the served tensors.
    Cells(Side),
    /// Starts a server for a case, and returns its id and URL.
    Start {
        case: String,
        operation: Operation,
        phase: Phase,
        times: Times,
        kind: Kind,
    },
    /// Returns the requests that the server with this id received.
    Log(usize),
    /// Stops the server with this id.
    Stop(usize),
}

/// Executes commands until the input ends.
///
/// # Errors
/// If a line is not a valid command, or the answers cannot be written.
pub fn run(commands: impl BufRead, mut answers: impl Write) -> io::Result<()> {
    let table = Table::load();
    let mut servers = BTreeMap::new();
    let mut started = 0;
    for line in commands.lines() {
        let command = serde_json::from_str(&line?)?;
        let answer = match command {
            Command::Cells(side) => json!({
                "cells": table.cells(side),
                "tensors": { "model": digests(1), "other": digests(2) },
            }),
            Command::Start {
                case,
                operation,
                phase,
                times,
                kind,
            } => match table.case(&case) {
                None => return Err(io::Error::other(format!("no case is {case:?}"))),
                Some(case) => {
                    let server = CaseServer::start(case, operation, phase, times, kind);
                    started += 1;
                    let answer = json!({ "id": started, "url": server.url });
                    servers.insert(started, server);
                    answer
                }
            },
            Command::Log(id) => json!({ "log": servers.get(&id).map(CaseServer::log) }),
            Command::Stop(id) => {
                servers.remove(&id);
                json!({})
            }
        };
        writeln!(answers, "{answer}")?;
        answers.flush()?;
    }
    Ok(())
}

/// Returns the SHA-256 of every tensor in the file made with `seed`.
fn digests(seed: u64) -> BTreeMap<&'static str, Value> {
    let plain = plain(seed);
    let digest = |name| (name, Value::from(sha256(tensor(&plain, name))));
    TENSORS.into_iter().map(digest).collect()
}
