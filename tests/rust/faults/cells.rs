//! Runs every fault of inputs, outputs and streams with every verb.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use zstn_tests::tier::chosen;

use crate::act::Act;
use crate::child::{Running, launch};
use crate::each;
use crate::judge::{Run, judge};
use crate::scratch::{Cell, Models};
use crate::setup::Setup;
use crate::snapshot;
use crate::table::{Expected, Fault, Place, Table, Verb};

#[test]
fn inputs() {
    all(Place::Input);
}

#[test]
fn outputs() {
    all(Place::Output);
}

#[test]
fn streams() {
    all(Place::Streams);
}

/// Runs every fault of a place with every verb to which it applies.
fn all(place: Place) {
    let table = Table::load();
    let mut runs = Vec::new();
    for fault in table.faults(place) {
        for verb in table.verbs.iter().filter(|verb| verb.has(place)) {
            if let Some(expected) = fault.expected(&table, &verb.name) {
                runs.push((fault, verb, expected));
            }
        }
    }
    assert!(runs.len() > 10);
    let runs = match std::env::var("ZSTN_FAULT") {
        Ok(wanted) => {
            runs.retain(|(fault, ..)| fault.name.contains(&wanted));
            runs
        }
        Err(_) => chosen(runs, |(fault, verb, expected)| {
            let outcome = format!("{} {:?}", fault.name, expected.outcome.status);
            vec![outcome, verb.name.clone()]
        }),
    };
    let problems = each(&runs, |(fault, verb, expected)| one(fault, verb, *expected));
    let (count, all) = (problems.len(), runs.len());
    assert!(
        problems.is_empty(),
        "{count} of {all}:\n{}",
        problems.join("\n")
    );
}

fn one(fault: &Fault, verb: &Verb, expected: Expected) -> Option<String> {
    let clean = Models::get().clean(verb);
    let cell = Cell::of(verb);
    let Some(mut setup) = fault.act.prepare(&cell, verb) else {
        eprintln!("skipped: {}, which needs to mount", fault.name);
        return None;
    };
    let mut before = snapshot::of(&cell.work());
    let arguments = setup.arguments.clone();
    let mut running = launch(&cell, &arguments, None, &setup.launch);
    if let Some(act) = setup.meanwhile {
        once_open(&mut running, &cell.work().join(&setup.input));
        change(act, &cell.work().join(&setup.input));
        before = snapshot::of(&cell.work());
        before.retain(|path, _| !path.as_os_str().as_encoded_bytes().starts_with(b"."));
        forget_result(&setup, &mut before);
    }
    let ended = running.end();
    let received = setup.received.take().map(|reader| {
        // If the program never opened the pipe, opening it here ends the reader.
        let pipe = cell.work().join(setup.output.trim_end_matches('/'));
        drop(File::options().read(true).write(true).open(pipe));
        reader.join().expect("a reader")
    });
    let run = Run {
        verb,
        setup: &setup,
        clean,
        before: &before,
        ended: &ended,
        received,
    };
    let problem = judge(&cell, &run, expected)?;
    // The change may come between the program's opening of the file and its first look at
    // the file's version. Then the right result is that of the changed file.
    let early = setup.meanwhile.filter(|_| ended.status == 0);
    if early.is_some_and(|act| snapshot::of(&cell.work()) == of_changed(act, verb)) {
        return None;
    }
    Some(format!("{}: {problem}", fault.name))
}

/// Returns the contents of the folder after a verb whose input is changed before it begins.
fn of_changed(act: Act, verb: &Verb) -> snapshot::Snapshot {
    let cell = Cell::of(verb);
    let setup = act.prepare(&cell, verb).expect("a change needs no mount");
    change(act, &cell.work().join(&setup.input));
    launch(&cell, &setup.arguments, None, &setup.launch).end();
    snapshot::of(&cell.work())
}

/// Waits until a process has opened a file, or has ended.
fn once_open(running: &mut Running, path: &Path) {
    let open = format!("/proc/{}/fd", running.child.id());
    loop {
        let descriptors = fs::read_dir(&open).into_iter().flatten().flatten();
        let mut targets = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
        if targets.any(|target| target == path) || !running.is_running() {
            return;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Changes a file while it is being read.
fn change(act: Act, path: &Path) {
    match act {
        Act::TruncatedMeanwhile => {
            let file = File::options().write(true).open(path).expect("opened");
            file.set_len(5000).expect("cut");
        }
        Act::OverwrittenMeanwhile => {
            let mut file = File::options().write(true).open(path).expect("opened");
            let middle = file.metadata().expect("its length").len() / 2;
            file.seek(SeekFrom::Start(middle)).expect("moved");
            file.write_all(b"scribbled").expect("written");
        }
        _ => {
            let other = path.with_extension("other");
            let len = fs::metadata(path).expect("its length").len();
            File::create(&other)
                .expect("made")
                .set_len(len)
                .expect("zeros");
            fs::rename(other, path).expect("renamed");
        }
    }
}

/// Excludes the output of a run that finished before its fault took effect.
fn forget_result(setup: &Setup, before: &mut snapshot::Snapshot) {
    if !setup.output.is_empty() {
        let output = setup.output.trim_end_matches('/');
        before.retain(|path, _| !path.starts_with(output));
    }
}
