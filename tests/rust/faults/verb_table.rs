//! Data types for `tests/faults/verbs.json`, and `docs/faults.md`, its readable
//! version.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use serde::Deserialize;
use zstn_tests::repository;

use crate::inject::Act;

/// The parsed `verbs.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    #[serde(rename = "about")]
    _about: Vec<String>,
    /// Defines the outcomes that faults refer to by name.
    pub outcomes: BTreeMap<String, Outcome>,
    /// The verbs that end by themselves.
    pub verbs: Vec<Verb>,
    /// The verbs that run until they are stopped.
    pub servers: Vec<Server>,
    /// The groups of faults, in the order of the document.
    pub groups: Vec<Group>,
}

/// An expected outcome.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The allowed exit statuses; 128 plus the number of a signal means that it ended
    /// the run.
    pub status: Vec<i32>,
    /// How much of the result must exist.
    pub result: Kept,
    /// Explanation for the document.
    pub means: String,
}

/// How much of a result exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// The complete result.
    Complete,
    /// No result: the folder is unchanged.
    Nothing,
    /// The complete result after status 0, otherwise either the complete result or
    /// none.
    Either,
    /// A result made from whatever bytes the input has; its content is not checked.
    Other,
    /// The output of a stream is not checked; the folder is unchanged.
    Unread,
}

/// A verb that ends by itself.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verb {
    /// The name in the document.
    pub name: String,
    /// The command-line arguments, which refer to files of the scratch folder by name.
    pub arguments: Vec<String>,
    /// The file that faults of inputs affect.
    pub input: Option<String>,
    /// The name of the output file, if the verb writes one.
    pub output: Option<String>,
    /// The name of the file used as standard input.
    pub stdin: Option<String>,
    /// True if standard output differs between runs.
    #[serde(default)]
    pub varies: bool,
}

/// A verb that runs until it is stopped.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// The name in the document.
    pub name: String,
    /// The command-line arguments; `PORT` is replaced by a free port.
    pub arguments: Vec<String>,
    /// The folder or file that the server needs.
    pub input: Option<String>,
}

/// A group of similar faults.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The heading in the document.
    pub name: String,
    /// The place that these faults affect.
    pub on: Place,
    pub faults: Vec<Fault>,
}

/// The place that a fault affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The input file.
    Input,
    /// The output file or folder.
    Output,
    /// The standard streams and the environment.
    Streams,
    /// The process itself.
    Process,
    /// A very large input file.
    Large,
    /// A server.
    Server,
}

/// A fault and its expected outcomes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Description of the fault; unique in its group.
    pub name: String,
    /// How the fault is produced.
    pub act: Act,
    /// Name of the expected outcome.
    pub outcome: String,
    /// Texts that the message must contain. `{input}` and `{output}` are replaced by
    /// their names.
    #[serde(default)]
    pub says: Vec<String>,
    /// Verbs with a different outcome.
    #[serde(default)]
    pub except: Vec<Exception>,
}

/// An exception: verbs with a different outcome of a fault.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exception {
    /// The names of the verbs.
    pub verbs: Vec<String>,
    /// Name of the outcome; `None` if the fault does not apply to these verbs.
    pub outcome: Option<String>,
    /// Texts that the message must contain.
    #[serde(default)]
    pub says: Vec<String>,
    /// Why these verbs differ.
    pub why: String,
}

impl Table {
    /// Parses `tests/faults/verbs.json`.
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

    /// Returns the faults that affect a place.
    pub fn faults(&self, on: Place) -> impl Iterator<Item = &Fault> {
        let groups = self.groups.iter().filter(move |group| group.on == on);
        groups.flat_map(|group| &group.faults)
    }
}

impl Verb {
    /// Returns whether faults of this place apply to the verb.
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
    /// Returns the outcome for a verb and the texts that its message must contain;
    /// `None` if the fault does not apply to the verb.
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

/// The expected result of a fault with one verb.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'t> {
    /// Name of the outcome.
    pub name: &'t str,
    pub outcome: &'t Outcome,
    /// Texts that the message must contain.
    pub says: &'t [String],
}

const BEGIN: &str = "<!-- tests/faults/verbs.json -->\n";
const END: &str = "<!-- end -->\n";

#[test]
fn the_document_is_the_table() {
    let path = repository().join("docs/faults.md");
    let text = fs::read_to_string(&path).expect("docs/faults.md");
    let (head, rest) = text.split_once(BEGIN).expect("the beginning of the table");
    let (_, tail) = rest.split_once(END).expect("its end");
    let written = format!("{head}{BEGIN}{}{END}{tail}", document(&Table::load()));
    if std::env::var_os("ZSTN_WRITE_FAULTS").is_some() {
        fs::write(&path, &written).expect("written");
    } else {
        assert!(
            text == written,
            "docs/faults.md is not tests/faults/verbs.json any more; run this test with \
             ZSTN_WRITE_FAULTS=1"
        );
    }
}

/// Every verb of the command line is in the table, or the document explains its
/// absence.
#[test]
fn every_verb_is_in_the_table() {
    let help = zstn_tests::command::zstn(&repository(), &["--help"]);
    let help = String::from_utf8(help.stdout).expect("text");
    let (_, verbs) = help.split_once("Commands:").expect("the verbs");
    let (verbs, _) = verbs.split_once("\n\n").expect("their end");
    let table = Table::load();
    let mut count = 0;
    for verb in verbs
        .lines()
        .filter_map(|line| line.split_whitespace().next())
    {
        let is_named = |name: &str| name.split(' ').next() == Some(verb);
        assert!(verb == "help" || table.names().any(is_named), "{verb}");
        count += 1;
    }
    assert!(count > 10, "{verbs}");
}

fn document(table: &Table) -> String {
    let mut text = String::new();
    writeln!(text, "\n| outcome | status | means |\n|---|---|---|").expect("written");
    for (name, outcome) in &table.outcomes {
        let statuses: Vec<_> = outcome.status.iter().map(ToString::to_string).collect();
        let statuses = statuses.join(", ");
        writeln!(text, "| {name} | {statuses} | {} |", outcome.means).expect("written");
    }
    for group in &table.groups {
        add_group(&mut text, table, group);
    }
    text.push('\n');
    text
}

fn add_group(text: &mut String, table: &Table, group: &Group) {
    writeln!(text, "\n## {}\n", group.name).expect("written");
    let verbs: Vec<&str> = match group.on {
        Place::Server => table.servers.iter().map(|server| &*server.name).collect(),
        Place::Large => table.verbs.iter().map(|verb| &*verb.name).collect(),
        on => {
            let verbs = table.verbs.iter().filter(|verb| verb.has(on));
            verbs.map(|verb| &*verb.name).collect()
        }
    };
    // Verbs to which no fault of the group applies are not named.
    let concerns = |verb: &&&str| {
        let mut faults = group.faults.iter();
        faults.any(|fault| fault.expected(table, verb).is_some())
    };
    let verbs: Vec<&str> = verbs.iter().filter(concerns).copied().collect();
    writeln!(text, "Verbs: {}.\n", verbs.join(", ")).expect("written");
    writeln!(
        text,
        "| fault | verbs | outcome | reason |\n|---|---|---|---|"
    )
    .expect("written");
    for fault in &group.faults {
        let rest = match fault.except.is_empty() {
            true => "all",
            false => "all others",
        };
        writeln!(text, "| {} | {rest} | {} | |", fault.name, fault.outcome).expect("written");
        for exception in &fault.except {
            let verbs = exception.verbs.join(", ");
            let outcome = exception.outcome.as_deref().unwrap_or("–");
            writeln!(text, "| | {verbs} | {outcome} | {} |", exception.why).expect("written");
        }
    }
}
