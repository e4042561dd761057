//! The table of faults in `tests/faults`: how a server or disk misbehaves, and the
//! outcome that every test suite expects.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::repository;
use table::{Case, Choice, Failure, Tries};

pub mod files;
mod send;
pub mod server;
pub mod table;

pub use server::CaseServer;
pub use table::{Kind, Table};

/// The result of running a case once.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// Name of the case.
    pub case: String,
    /// The suite and operation, such as `native read`.
    pub surface: String,
    /// What went wrong; `None` if the run passed.
    pub problem: Option<String>,
}

/// Writes the runs of a suite to `target/faults/NAME.json`, which lists the outcome of
/// each case on each surface.
///
/// # Panics
/// If they cannot be written.
pub fn write_report(name: &str, runs: &[Run]) {
    let folder = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| repository().join("target"), Into::into)
        .join("faults");
    fs::create_dir_all(&folder).expect("target/faults");
    let text = serde_json::to_string(runs).expect("JSON");
    fs::write(folder.join(format!("{name}.json")), text).expect("the results");
}

/// The operation that a client performs on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Opens the file and reads a tensor by ranges.
    Read,
    /// Reads the whole file from a server that supports ranges.
    Resumable,
    /// Reads the whole file from a server that does not support ranges.
    Plain,
}

/// The request that meets the first fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The first request.
    Opening,
    /// The second request.
    Later,
}

/// How often the faults happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Times {
    /// Each fault happens once.
    Once,
    /// The last fault repeats for ever.
    Always,
}

/// A case with one operation, phase and repetition, as one test suite runs it.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    /// Name of the case.
    pub case: String,
    /// The operation to perform.
    pub operation: Operation,
    /// The request that meets the first fault.
    pub phase: Phase,
    /// How often the faults happen.
    pub times: Times,
    /// File formats to run the cell with.
    pub kinds: Vec<Kind>,
    /// True if the cell ends only by a timeout.
    pub stalls: bool,
    /// The expected `If-Range` header; see [`Case::if_range`].
    pub if_range: Option<String>,
    /// The expected outcome.
    pub expected: Expected,
}

/// The expected outcome of a cell in one test suite.
#[derive(Debug, Clone, Serialize)]
pub struct Expected {
    /// Name of the outcome.
    pub name: String,
    /// The version whose bytes are expected; see `Outcome::bytes`.
    pub bytes: Option<String>,
    /// The expected error.
    pub failure: Option<Failure>,
    /// The HTTP status that the error must report.
    pub status: Option<u16>,
    /// The expected number of requests when the first `faults` answers of `case` fail.
    pub tries: Option<Tries>,
    /// The number of faults of the case.
    pub faults: usize,
}

/// The test suites that run the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The native suite, `tests/rust/http/faults`.
    Native,
    /// The npm suite, `tests/js/node/faults.test.mjs`.
    Npm,
}

/// The operation, the request of the first fault, and how often faults happen.
type Moment = (Operation, Phase, Times);

/// Returns the combinations that apply to a case.
fn moments(case: &Case) -> impl Iterator<Item = Moment> {
    use Operation::{Plain, Read, Resumable};
    use Phase::{Later, Opening};
    let has_faults = !case.faults.is_empty();
    let times = [Times::Once, Times::Always];
    let times = times
        .into_iter()
        .filter(move |times| has_faults || *times == Times::Always);
    times.flat_map(move |times| {
        let reads = [
            (Read, Opening),
            (Read, Later),
            (Resumable, Opening),
            (Plain, Opening),
        ];
        let reads = reads
            .into_iter()
            .filter(move |(_, phase)| has_faults || *phase == Opening);
        reads.map(move |(operation, phase)| (operation, phase, times))
    })
}

/// Returns the words that a key of `outcome` may contain to match this combination.
fn words((operation, phase, times): Moment) -> Vec<&'static str> {
    let mut words = match (operation, phase) {
        (Operation::Read, Phase::Opening) => vec!["read", "opening"],
        (Operation::Read, Phase::Later) => vec!["read", "later"],
        (Operation::Resumable, _) => vec!["download", "resumable"],
        (Operation::Plain, _) => vec!["download", "plain"],
    };
    words.push(match times {
        Times::Once => "once",
        Times::Always => "always",
    });
    words
}

impl Table {
    /// Returns the cells that a suite runs.
    ///
    /// # Panics
    /// If two keys of a case contradict each other.
    #[must_use]
    pub fn cells(&self, side: Side) -> Vec<Cell> {
        let cases = self.cases.iter();
        let cells = cases
            .flat_map(|case| moments(case).filter_map(move |moment| self.cell(case, moment, side)));
        cells.collect()
    }

    fn cell(&self, case: &Case, moment: Moment, side: Side) -> Option<Cell> {
        let name = match (&case.outcome[case.key_for(moment)?], side) {
            (Choice::Same(name), _) => name,
            (Choice::Differs { native, .. }, Side::Native) => native.as_ref()?,
            (Choice::Differs { npm, .. }, Side::Npm) => npm.as_ref()?,
        };
        let outcome = &self.outcomes[name];
        let failure = match side {
            Side::Native => &outcome.native,
            Side::Npm => &outcome.npm,
        };
        let has_status = failure.as_ref().is_some_and(|failure| failure.has_status);
        let answer = case.faults.last().unwrap_or(&case.server);
        let (operation, phase, times) = moment;
        Some(Cell {
            case: case.name.clone(),
            operation,
            phase,
            times,
            kinds: case.kinds.clone(),
            stalls: case.stalls,
            if_range: case.if_range.clone(),
            expected: Expected {
                name: name.clone(),
                bytes: outcome.bytes.clone(),
                failure: failure.clone(),
                status: answer.status.filter(|_| has_status),
                tries: outcome.tries,
                faults: case.faults.len(),
            },
        })
    }
}

impl Case {
    /// Returns the key of `outcome` that matches with the most words.
    fn key_for(&self, moment: Moment) -> Option<&str> {
        let words = words(moment);
        let fits = |key: &&String| key.split(' ').all(|word| words.contains(&word));
        let count = |key: &String| key.split(' ').count();
        let keys: Vec<_> = self.outcome.keys().filter(fits).collect();
        let most = keys.iter().map(|key| count(key)).max()?;
        let mut best = keys.into_iter().filter(|key| count(key) == most);
        let key = best.next()?;
        assert!(
            best.next().is_none(),
            "{}: two outcomes for {words:?}",
            self.name
        );
        Some(key)
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            case,
            operation,
            phase,
            times,
            ..
        } = self;
        write!(f, "{case}, {operation:?}, {phase:?}, {times:?}")
    }
}
