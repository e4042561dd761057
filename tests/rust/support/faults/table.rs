//! `tests/faults/server.json`: the cases, and the cells that each suite runs.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::answer::Answer;
use crate::repository;

/// The whole file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Remarks for those who read the file.
    #[serde(rename = "about")]
    _about: serde_json::Value,
    /// The meaning of the names that cases give their outcomes.
    pub outcomes: BTreeMap<String, Outcome>,
    /// The cases.
    pub cases: Vec<Case>,
}

/// What has to come of a cell.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// `model` or `other`: the bytes of that version; `None` for errors.
    pub bytes: Option<String>,
    /// The error of the native library.
    pub native: Option<Failure>,
    /// The error of the npm package.
    pub npm: Option<Failure>,
    /// The number of requests.
    pub tries: Option<Tries>,
}

/// An error.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// `zstn::Error::code` or the `code` of the JavaScript error.
    pub code: String,
    /// Words of the message.
    #[serde(default)]
    pub says: String,
    /// True if the error has the status of the answer.
    #[serde(default)]
    pub has_status: bool,
}

/// The number of requests for the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tries {
    /// No attempt follows the first fault.
    One,
    /// As many as the retries allow.
    All,
    /// One for each fault, in addition to those of a right server.
    OneMore,
}

/// One case.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What is wrong.
    pub name: String,
    /// How the server answers in general.
    #[serde(default)]
    pub server: Answer,
    /// The faulty answers in turn; without any, `server` is the case.
    #[serde(default)]
    pub faults: Vec<Answer>,
    /// The answer to `HEAD`.
    pub head: Option<Answer>,
    /// The answer to a request without `Range`.
    pub whole: Option<Answer>,
    /// True if only a time limit ends it.
    #[serde(default)]
    pub stalls: bool,
    /// The kinds of file that it concerns; all by default.
    #[serde(default = "all_kinds")]
    pub kinds: Vec<Kind>,
    /// The `If-Range` of all requests after the first; empty for none.
    pub if_range: Option<String>,
    /// The outcome of each cell: the key with the most words that all belong to
    /// a cell counts. A cell without a key is left out.
    pub outcome: BTreeMap<String, Choice>,
}

fn all_kinds() -> Vec<Kind> {
    vec![Kind::Safetensors, Kind::Zstn]
}

/// The name of an outcome, or one for each side with the reason.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Choice {
    /// The same for both.
    Same(String),
    /// They differ.
    Differs {
        /// That of the native library.
        native: Option<String>,
        /// That of the npm package.
        npm: Option<String>,
        /// Why they differ.
        why: String,
    },
}

/// Formats of the served file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A plain checkpoint.
    Safetensors,
    /// A packed one.
    Zstn,
}

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

impl Table {
    /// Reads the file.
    ///
    /// # Panics
    /// If it is not as described.
    #[must_use]
    pub fn load() -> Self {
        let path = repository().join("tests/faults/server.json");
        let text = std::fs::read_to_string(&path).expect("tests/faults/server.json");
        let table: Self = serde_json::from_str(&text).expect("tests/faults/server.json");
        table.check();
        table
    }

    /// Returns the case called `name`.
    #[must_use]
    pub fn case(&self, name: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.name == name)
    }

    /// Returns the cells of a side.
    ///
    /// # Panics
    /// If two keys of a case contradict each other.
    #[must_use]
    pub fn cells(&self, side: Side) -> Vec<Cell> {
        let cases = self.cases.iter();
        cases.flat_map(|case| self.cells_of(case, side)).collect()
    }

    fn cells_of(&self, case: &Case, side: Side) -> Vec<Cell> {
        use Operation::{Plain, Read, Resumable};
        use Phase::{Later, Opening};
        let all_times: &[Times] = match case.faults.is_empty() {
            true => &[Times::Always],
            false => &[Times::Once, Times::Always],
        };
        let mut cells = Vec::new();
        for times in all_times {
            for (operation, phase) in [
                (Read, Opening),
                (Read, Later),
                (Resumable, Opening),
                (Plain, Opening),
            ] {
                if case.faults.is_empty() && phase == Later {
                    continue;
                }
                let Some(name) = case.outcome_of(operation, phase, *times, side) else {
                    continue;
                };
                let outcome = &self.outcomes[name];
                let failure = match side {
                    Side::Native => &outcome.native,
                    Side::Npm => &outcome.npm,
                };
                let has_status = failure.as_ref().is_some_and(|failure| failure.has_status);
                let answer = case.faults.last().unwrap_or(&case.server);
                cells.push(Cell {
                    case: case.name.clone(),
                    operation,
                    phase,
                    times: *times,
                    kinds: case.kinds.clone(),
                    stalls: case.stalls,
                    if_range: case.if_range.clone(),
                    expected: Expected {
                        name: name.to_owned(),
                        bytes: outcome.bytes.clone(),
                        failure: failure.clone(),
                        status: answer.status.filter(|_| has_status),
                        tries: outcome.tries,
                        faults: case.faults.len(),
                    },
                });
            }
        }
        cells
    }

    fn check(&self) {
        let mut names = BTreeSet::new();
        for case in &self.cases {
            assert!(names.insert(&case.name), "two cases are {:?}", case.name);
            for (key, choice) in &case.outcome {
                let (named, why) = match choice {
                    Choice::Same(name) => (vec![name], ""),
                    Choice::Differs { native, npm, why } => {
                        assert!(!why.is_empty(), "{}, {key}: why?", case.name);
                        assert!(native != npm, "{}, {key}: {why}", case.name);
                        (native.iter().chain(npm).collect(), &**why)
                    }
                };
                for name in named {
                    let known = self.outcomes.contains_key(name);
                    assert!(known, "{}, {key} {why}: {name:?}?", case.name);
                }
                let known = key.split(' ').all(|word| WORDS.contains(&word));
                assert!(known, "{}: {key:?}?", case.name);
            }
        }
    }
}

const WORDS: [&str; 8] = [
    "read",
    "download",
    "resumable",
    "plain",
    "opening",
    "later",
    "once",
    "always",
];

impl Case {
    fn outcome_of(
        &self,
        operation: Operation,
        phase: Phase,
        times: Times,
        side: Side,
    ) -> Option<&str> {
        let mut words = match operation {
            Operation::Read => vec!["read"],
            Operation::Resumable => vec!["download", "resumable"],
            Operation::Plain => vec!["download", "plain"],
        };
        words.push(match times {
            Times::Once => "once",
            Times::Always => "always",
        });
        if operation == Operation::Read {
            words.push(match phase {
                Phase::Opening => "opening",
                Phase::Later => "later",
            });
        }
        let fitting = self.outcome.iter().filter_map(|(key, choice)| {
            let count = key.split(' ').count();
            let fits = key.split(' ').all(|word| words.contains(&word));
            fits.then_some((count, choice))
        });
        let most = fitting.clone().map(|(count, _)| count).max()?;
        let best: Vec<_> = fitting.filter(|(count, _)| *count == most).collect();
        let [(_, choice)] = best[..] else {
            panic!("{}: two outcomes for {words:?}", self.name);
        };
        match (choice, side) {
            (Choice::Same(name), _) => Some(name),
            (Choice::Differs { native, .. }, Side::Native) => native.as_deref(),
            (Choice::Differs { npm, .. }, Side::Npm) => npm.as_deref(),
        }
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
