//! Data types for `tests/faults/server.json`: the cases and their expected outcomes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::cells::moments;
use crate::repository;

/// The parsed `server.json`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Remarks for people who read the JSON file.
    #[serde(rename = "about")]
    _about: serde_json::Value,
    /// Defines the outcomes that the cases refer to by name.
    pub outcomes: BTreeMap<String, Outcome>,
    /// The cases, which have distinct names.
    pub cases: Vec<Case>,
}

/// An expected outcome.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The version whose bytes are read, `model` or `other`; `None` if an error is
    /// expected.
    pub bytes: Option<String>,
    /// The expected error of the native library.
    pub native: Option<Failure>,
    /// The expected error of the npm package.
    pub npm: Option<Failure>,
    /// The expected number of requests.
    pub tries: Option<Tries>,
}

/// An expected error.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The value of `zstn::Error::code`, or `code` of the JavaScript error.
    pub code: String,
    /// Text that the error message must contain.
    #[serde(default)]
    pub says: String,
    /// True if the error must report the HTTP status of the answer.
    #[serde(default)]
    pub has_status: bool,
}

/// The number of requests for the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tries {
    /// The client does not retry after the first fault.
    One,
    /// The client retries until it reaches its limit.
    All,
    /// The client sends one extra request per fault.
    OneMore,
}

/// A fault, or sequence of faults, and its expected outcomes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Description of the fault; unique in the table.
    pub name: String,
    /// How the server answers requests without a fault.
    #[serde(default)]
    pub server: Answer,
    /// The faulty answers in order. If there are none, `server` itself is the fault.
    #[serde(default)]
    pub faults: Vec<Answer>,
    /// The answer to `HEAD` requests, if it differs.
    pub head: Option<Answer>,
    /// The answer to requests without `Range`, if it differs.
    pub whole: Option<Answer>,
    /// True if the case ends only by a timeout.
    #[serde(default)]
    pub stalls: bool,
    /// The file formats to run the case with; all by default.
    #[serde(default = "all_kinds")]
    pub kinds: Vec<Kind>,
    /// The `If-Range` value of all requests after the first; an empty string if they
    /// must not have one.
    pub if_range: Option<String>,
    /// The outcome of each cell. A key matches a cell if all of its words belong to the
    /// cell, and the matching key with the most words applies. Cells without a matching
    /// key are not run.
    pub outcome: BTreeMap<String, Choice>,
}

fn all_kinds() -> Vec<Kind> {
    vec![Kind::Safetensors, Kind::Zstn]
}

/// The name of an outcome, or one name for each suite.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Choice {
    /// Both suites expect the same outcome.
    Same(String),
    /// The suites expect different outcomes.
    Differs {
        /// Outcome of the native library.
        native: Option<String>,
        /// Outcome of the npm package.
        npm: Option<String>,
        /// Why the outcomes differ; must not be empty.
        why: String,
    },
}

/// File formats that a fault server serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A plain safetensors checkpoint.
    Safetensors,
    /// The checkpoint packed as `.zstn`.
    Zstn,
}

impl Table {
    /// Parses and checks `tests/faults/server.json`.
    ///
    /// # Panics
    /// If the file does not match these types or is inconsistent.
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
