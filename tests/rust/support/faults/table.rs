//! `tests/faults/server.json`: the cases and their outcomes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::cells::moments;
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

    fn check(&self) {
        let mut names = BTreeSet::new();
        let mut outcomes = BTreeSet::new();
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
                    outcomes.insert(name);
                    let known = self.outcomes.contains_key(name);
                    assert!(known, "{}, {key} {why}: {name:?}?", case.name);
                }
                let is_used = moments(case)
                    .any(|moment| case.key_for(moment).is_some_and(|best| best == key));
                assert!(is_used, "{}: no cell is {key:?}", case.name);
            }
        }
        for name in self.outcomes.keys() {
            assert!(outcomes.contains(name), "no case has the outcome {name:?}");
        }
    }
}
