//! Generates `docs/faults.md`, the readable version of the fault table.

use std::fmt::Write as _;
use std::fs;

use zstn_tests::repository;

use crate::table::{Fault, Group, Place, Table};

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
    // Columns of verbs to which no fault of the group applies would be empty.
    let concerns = |verb: &&&str| {
        let mut faults = group.faults.iter();
        faults.any(|fault| fault.expected(table, verb).is_some())
    };
    let verbs: Vec<&str> = verbs.iter().filter(concerns).copied().collect();
    writeln!(text, "| fault | {} |", verbs.join(" | ")).expect("written");
    writeln!(text, "|---|{}", "---|".repeat(verbs.len())).expect("written");
    for fault in &group.faults {
        let cells = verbs.iter().map(|verb| match fault.expected(table, verb) {
            Some(expected) => expected.name,
            None => "–",
        });
        let cells: Vec<_> = cells.collect();
        writeln!(text, "| {} | {} |", fault.name, cells.join(" | ")).expect("written");
    }
    let reasons: Vec<String> = group.faults.iter().flat_map(reasons).collect();
    if !reasons.is_empty() {
        writeln!(text, "\n{}", reasons.join("\n")).expect("written");
    }
}

/// Returns the reasons for outcomes that differ between verbs.
fn reasons(fault: &Fault) -> Vec<String> {
    let exceptions = fault.except.iter();
    exceptions
        .map(|exception| {
            let verbs = exception.verbs.join(", ");
            format!("- {}, {verbs}: {}", fault.name, exception.why)
        })
        .collect()
}
