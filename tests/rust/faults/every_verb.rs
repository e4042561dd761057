//! Runs every fault of inputs, outputs and streams with every verb, also with very
//! large files and with two processes that write the same output.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use zstn_tests::tier::{self, chosen};
use zstn_tests::with_header;

use crate::each;
use crate::inject::{Act, Setup};
use crate::judge::{Run, judge};
use crate::process::{Launch, Running, launch, launch_as};
use crate::scratch::{self, Cell, Models};
use crate::verb_table::{Expected, Fault, Place, Table, Verb};

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
    let mut before = scratch::snapshot(&cell.work());
    let arguments = setup.arguments.clone();
    let mut running = launch(&cell, &arguments, None, &setup.launch);
    if let Some(act) = setup.meanwhile {
        once_open(&mut running, &cell.work().join(&setup.input));
        change(act, &cell.work().join(&setup.input));
        before = scratch::snapshot(&cell.work());
        before.retain(|path, _| !path.as_os_str().as_encoded_bytes().starts_with(b"."));
        forget_result(&setup, &mut before);
    }
    let ended = running.end();
    let received = setup.received.take().map(|reader| {
        // If the program never opened the pipe, opening it here ends the reader, unless
        // the reader opens it later.
        let pipe = cell.work().join(setup.output.trim_end_matches('/'));
        while !reader.is_finished() {
            drop(File::options().read(true).write(true).open(&pipe));
            std::thread::sleep(Duration::from_millis(5));
        }
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
    if early.is_some_and(|act| scratch::snapshot(&cell.work()) == of_changed(act, verb)) {
        return None;
    }
    Some(format!("{}: {problem}", fault.name))
}

/// Returns the contents of the folder after a verb whose input is changed before it begins.
fn of_changed(act: Act, verb: &Verb) -> scratch::Snapshot {
    let cell = Cell::of(verb);
    let setup = act.prepare(&cell, verb).expect("a change needs no mount");
    change(act, &cell.work().join(&setup.input));
    launch(&cell, &setup.arguments, None, &setup.launch).end();
    scratch::snapshot(&cell.work())
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
fn forget_result(setup: &Setup, before: &mut scratch::Snapshot) {
    if !setup.output.is_empty() {
        let output = setup.output.trim_end_matches('/');
        before.retain(|path, _| !path.starts_with(output));
    }
}

/// Time limit of a run with a debug build on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn large_files() {
    let table = Table::load();
    let mut problems = Vec::new();
    let verbs: BTreeSet<&str> = match tier::is_all() {
        true => {
            let names = table.verbs.iter().map(|verb| &*verb.name);
            // No vector has a delta of such a file.
            names.filter(|name| *name != "verify a base").collect()
        }
        false => ["pack", "unpack", "verify", "ls", "get"].into(),
    };
    for fault in table.faults(Place::Large) {
        let file = match fault.act {
            Act::ManyTensors => many_tensors(),
            Act::LongHeader => long_header(),
            act => panic!("{act:?} is not about size"),
        };
        let cell = Cell::with(["m.safetensors"].into_iter());
        fs::write(cell.work().join("m.safetensors"), file).expect("written");
        let packed = table.verbs.iter().find(|verb| verb.name == "pack");
        let made = run(&cell, packed.expect("a verb"));
        assert_eq!(made.status, 0, "{}", made.stderr);
        fs::rename(cell.work().join("out.zstn"), cell.work().join("m.zstn")).expect("renamed");
        for verb in table
            .verbs
            .iter()
            .filter(|verb| verbs.contains(&*verb.name))
        {
            let Some(expected) = fault.expected(&table, &verb.name) else {
                continue;
            };
            let ended = run(&cell, verb);
            for made in scratch::snapshot(&cell.work()).keys() {
                if made.to_string_lossy().starts_with("out") {
                    fs::remove_file(cell.work().join(made)).expect("removed");
                }
            }
            let name = format!("{}, {}", fault.name, verb.name);
            println!("{name}: {:.2} s, status {}", ended.seconds, ended.status);
            if ended.hung || !expected.outcome.status.contains(&ended.status) {
                problems.push(format!("{name}: status {}: {}", ended.status, ended.stderr));
            }
            for words in expected.says {
                if !ended.stderr.contains(words) {
                    problems.push(format!("{name}: it does not say {words:?}"));
                }
            }
            if !scratch::snapshot(&cell.tmp()).is_empty() {
                problems.push(format!("{name}: something was left in TMPDIR"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn run(cell: &Cell, verb: &Verb) -> crate::process::Ended {
    let arguments: Vec<_> = verb.arguments.iter().map(Into::into).collect();
    let running = launch(cell, &arguments, verb.stdin.as_deref(), &Launch::default());
    running.end_within(LIMIT)
}

/// Returns a checkpoint of 100 000 tensors of one byte each.
fn many_tensors() -> Vec<u8> {
    let mut header = String::from("{");
    for number in 0..100_000 {
        let comma = if number == 0 { "" } else { "," };
        let name = if number == 0 { "a" } else { "layer." };
        let suffix = if number == 0 {
            String::new()
        } else {
            number.to_string()
        };
        write!(
            header,
            "{comma}\"{name}{suffix}\":{{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[{number},{}]}}",
            number + 1
        )
        .expect("written");
    }
    header.push('}');
    with_header(header, vec![7; 100_000])
}

/// Returns a checkpoint with one tensor and a header of the maximum length, 100 MB.
fn long_header() -> Vec<u8> {
    const LEN: usize = 100_000_000;
    let tensor = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},";
    let before = format!("{tensor}\"__metadata__\":{{\"note\":\"");
    let after = "\"}}";
    let note = "n".repeat(LEN - before.len() - after.len());
    with_header(format!("{before}{note}{after}"), [7])
}

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
        let mut complete = scratch::snapshot(&cell.work());
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
        let left = scratch::snapshot(&cell.tmp());
        let difference = scratch::difference(&complete, &scratch::snapshot(&cell.work()));
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
