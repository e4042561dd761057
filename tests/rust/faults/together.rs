//! Two processes that write the same output at the same time.

use std::collections::BTreeMap;

use crate::act::Act;
use crate::child::{Launch, launch_as};
use crate::each;
use crate::scratch::{Cell, Models};
use crate::snapshot;
use crate::table::{Place, Table};

#[test]
fn two_writers_of_one_output() {
    let table = Table::load();
    let mut runs = Vec::new();
    for fault in table.faults(Place::Process) {
        for verb in table.verbs.iter().filter(|verb| verb.output.is_some()) {
            if let Some(expected) = fault.expected(&table, &verb.name) {
                runs.push((fault, verb, expected));
            }
        }
    }
    runs.retain(|(fault, ..)| fault.act == Act::TwoWriters);
    assert!(runs.len() > 5);
    let problems = each(&runs, |(_, verb, expected)| {
        let clean = Models::get().clean(verb);
        let cell = Cell::of(verb);
        let mut complete = snapshot::of(&cell.work());
        complete.extend(clean.made.clone());
        let arguments: Vec<_> = verb.arguments.iter().map(Into::into).collect();
        let start = |name| {
            let launch = Launch::default();
            launch_as(&cell, &arguments, verb.stdin.as_deref(), &launch, name)
        };
        let both = [start("1"), start("2")].map(|running| running.end());
        let statuses = both.each_ref().map(|ended| ended.status);
        let mut said = BTreeMap::new();
        for ended in &both {
            said.insert(ended.status, ended.stderr.clone());
        }
        let is_expected = |status| expected.outcome.status.contains(status);
        let left = snapshot::of(&cell.tmp());
        let difference = snapshot::difference(&complete, &snapshot::of(&cell.work()));
        let problem = match difference {
            _ if !statuses.iter().all(is_expected) => format!("statuses {statuses:?}"),
            _ if !statuses.contains(&0) => "neither was done".into(),
            _ if !left.is_empty() => "something was left in TMPDIR".into(),
            Some(difference) => difference,
            None => return None,
        };
        Some(format!("two writers, {}: {problem}: {said:?}", verb.name))
    });
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
