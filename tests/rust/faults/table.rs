//! `tests/faults/verbs.json`.

use std::collections::BTreeMap;
use std::fs;

use serde::Deserialize;
use zstn_tests::repository;

use crate::act::Act;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    #[serde(rename = "about")]
    _about: Vec<String>,
    /// What may come of a fault, by name.
    pub outcomes: BTreeMap<String, Outcome>,
    /// The verbs that end by themselves.
    pub verbs: Vec<Verb>,
    /// The verbs that run until they are stopped.
    pub servers: Vec<Server>,
    /// The groups of faults, in the order of the document.
    pub groups: Vec<Group>,
}

/// Something that may come of a fault.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The exit statuses; 128 and more is the end by that signal.
    pub status: Vec<i32>,
    /// What there is of the result.
    pub result: Kept,
    /// The meaning, for people.
    pub means: String,
}

/// What there is of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// All of it.
    Complete,
    /// Nothing: the folder is as it was before.
    Nothing,
    /// All of it after status 0, otherwise all or nothing of it.
    Either,
    /// A result of the bytes that there are.
    Other,
    /// What went to a stream is not looked at; the folder is as it was before.
    Unread,
}

/// A verb that ends by itself.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verb {
    /// The name in the document.
    pub name: String,
    /// What is typed. A name of the scratch folder is `input` or `output`.
    pub arguments: Vec<String>,
    /// The file that faults of inputs happen to.
    pub input: Option<String>,
    /// The name of the output.
    pub output: Option<String>,
    /// What standard input is.
    pub stdin: Option<String>,
    /// Whether standard output differs from run to run.
    #[serde(default)]
    pub varies: bool,
}

/// A verb that runs until it is stopped.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// The name in the document.
    pub name: String,
    /// What is typed; `PORT` is a free one.
    pub arguments: Vec<String>,
    /// The folder or file that it cannot do without.
    pub input: Option<String>,
}

/// Faults of one kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The heading in the document.
    pub name: String,
    /// What they happen to.
    pub on: Place,
    /// The faults.
    pub faults: Vec<Fault>,
}

/// What a fault happens to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The file that is read.
    Input,
    /// The file or folder that is written.
    Output,
    /// The standard streams and the environment.
    Streams,
    /// The process.
    Process,
    /// A file of great size.
    Large,
    /// A server.
    Server,
}

/// A fault.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What is wrong.
    pub name: String,
    /// How it is brought about.
    pub act: Act,
    /// The name of the outcome.
    pub outcome: String,
    /// What the message has to contain. `{input}` and `{output}` are their names.
    #[serde(default)]
    pub says: Vec<String>,
    /// Verbs with another outcome.
    #[serde(default)]
    pub except: Vec<Exception>,
}

/// Verbs with another outcome.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exception {
    /// Their names.
    pub verbs: Vec<String>,
    /// The name of the outcome; `None` if the fault does not concern them.
    pub outcome: Option<String>,
    /// What the message has to contain.
    #[serde(default)]
    pub says: Vec<String>,
    /// The reason.
    pub why: String,
}

impl Table {
    /// Reads the file.
    pub fn load() -> Self {
        let path = repository().join("tests/faults/verbs.json");
        let text = fs::read_to_string(path).expect("tests/faults/verbs.json");
        let table: Self = serde_json::from_str(&text).expect("tests/faults/verbs.json");
        let names: Vec<&str> = table.names().collect();
        for fault in table.groups.iter().flat_map(|group| &group.faults) {
            let named = fault.except.iter().filter_map(|e| e.outcome.as_ref());
            for outcome in named.chain([&fault.outcome]) {
                assert!(table.outcomes.contains_key(outcome), "{outcome}?");
            }
            for verb in fault.except.iter().flat_map(|exception| &exception.verbs) {
                assert!(names.contains(&&**verb), "{}: {verb}?", fault.name);
            }
        }
        table
    }

    /// Returns the names of all verbs.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let servers = self.servers.iter().map(|server| &*server.name);
        self.verbs.iter().map(|verb| &*verb.name).chain(servers)
    }

    /// Returns the faults of a place.
    pub fn faults(&self, on: Place) -> impl Iterator<Item = &Fault> {
        let groups = self.groups.iter().filter(move |group| group.on == on);
        groups.flat_map(|group| &group.faults)
    }
}

impl Verb {
    /// Returns whether a fault of this place concerns it.
    pub fn has(&self, on: Place) -> bool {
        match on {
            Place::Input => self.input.is_some(),
            Place::Output => self.output.is_some(),
            Place::Streams | Place::Process => true,
            Place::Large => false,
            Place::Server => false,
        }
    }
}

impl Fault {
    /// Returns the outcome for a verb and what its message has to contain; `None` if
    /// the fault does not concern it.
    pub fn expected<'t>(&'t self, table: &'t Table, verb: &str) -> Option<Expected<'t>> {
        let mut exceptions = self.except.iter();
        let (name, says) = match exceptions.find(|e| e.verbs.iter().any(|name| name == verb)) {
            Some(exception) => (exception.outcome.as_deref()?, &exception.says),
            None => (&*self.outcome, &self.says),
        };
        let outcome = &table.outcomes[name];
        Some(Expected {
            name,
            outcome,
            says,
        })
    }
}

/// What a cell of the table expects.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'t> {
    /// The name of the outcome.
    pub name: &'t str,
    /// The outcome.
    pub outcome: &'t Outcome,
    /// What the message has to contain.
    pub says: &'t [String],
}
