//! The cells of the table: each case, with what is done and when it goes wrong.

use serde::{Deserialize, Serialize};

use super::table::{Case, Choice, Failure, Kind, Table, Tries};

/// What is done with the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Opens the file and reads a tensor, by ranges.
    Read,
    /// Reads the whole file from a server that answers ranges.
    Resumable,
    /// Reads the whole file from a server that does not.
    Plain,
}

/// When the first fault happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// With the first request.
    Opening,
    /// With the second.
    Later,
}

/// How often the faults happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Times {
    /// Each fault once.
    Once,
    /// The last one for ever.
    Always,
}

/// A case at one moment, as one side runs it.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    /// Name of the case.
    pub case: String,
    /// What is done.
    pub operation: Operation,
    /// When it goes wrong.
    pub phase: Phase,
    /// How often.
    pub times: Times,
    /// Kinds of file to run it with.
    pub kinds: Vec<Kind>,
    /// True if only a time limit ends it.
    pub stalls: bool,
    /// See [`Case::if_range`].
    pub if_range: Option<String>,
    /// The outcome.
    pub expected: Expected,
}

/// The outcome of a cell for one side.
#[derive(Debug, Clone, Serialize)]
pub struct Expected {
    /// Name of the outcome.
    pub name: String,
    /// See [`Outcome::bytes`].
    pub bytes: Option<String>,
    /// The error.
    pub failure: Option<Failure>,
    /// Status of that error.
    pub status: Option<u16>,
    /// The number of requests to a server that the first `faults` answers of
    /// `case` fail.
    pub tries: Option<Tries>,
    /// The number of faults of the case.
    pub faults: usize,
}

/// The suites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// `tests/rust/http/faults`.
    Native,
    /// `tests/js/node/faults.test.mjs`.
    Npm,
}

/// What is done, when it goes wrong, and how often.
pub(super) type Moment = (Operation, Phase, Times);

/// Returns the moments at which a case can happen.
pub(super) fn moments(case: &Case) -> impl Iterator<Item = Moment> {
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

/// Returns the words that a key of `outcome` may have to mean this moment.
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
    /// Returns the cells of a side.
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
    /// Returns the key of `outcome` for a moment: the one with the most words.
    pub(super) fn key_for(&self, moment: Moment) -> Option<&str> {
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
