//! Sends signals to every verb at several times during its run, and to verbs that have
//! a temporary folder while they wait for work.

use std::ffi::OsString;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use zstn_tests::checkpoint;
use zstn_tests::rng::Rng;
use zstn_tests::stub_hub::{Options, StubHub, plan_of};
use zstn_tests::tier::chosen;

use crate::each;
use crate::inject::Act;
use crate::judge::{Run, judge};
use crate::process::{Ended, Launch, launch};
use crate::scratch::{self, Cell, Models};
use crate::table::{Expected, Fault, Place, Table, Verb};

/// When to send the signal, as fractions of the duration of an undisturbed run. If
/// `$ZSTN_FAULT_MOMENTS` is set, that number of random times is used instead.
const MOMENTS: [f64; 5] = [0.1, 0.35, 0.55, 0.75, 0.95];

fn moments(seed: u64) -> Vec<f64> {
    let wanted = std::env::var("ZSTN_FAULT_MOMENTS").ok();
    match wanted.and_then(|count| count.parse().ok()) {
        None => MOMENTS.to_vec(),
        Some(count) => {
            let mut rng = Rng(seed);
            let random = std::iter::repeat_with(|| (rng.next_u64() % 1100) as f64 / 1000.0);
            random.take(count).collect()
        }
    }
}

#[test]
fn signals() {
    let table = Table::load();
    let mut runs = Vec::new();
    for fault in table.faults(Place::Process) {
        for verb in &table.verbs {
            if let Some(expected) = fault.expected(&table, &verb.name) {
                let seed = runs.len() as u64 + 1;
                runs.extend(
                    moments(seed)
                        .into_iter()
                        .map(|moment| (fault, verb, expected, moment)),
                );
            }
        }
    }
    runs.retain(|(fault, ..)| fault.act.signal().is_some());
    assert!(runs.len() > 100);
    let runs = chosen(runs, |(fault, verb, _, moment)| {
        vec![fault.name.clone(), verb.name.clone(), moment.to_string()]
    });
    // Undisturbed runs are timed beforehand, while no other programs run.
    for verb in &table.verbs {
        Models::get().clean(verb);
    }
    let problems = each(&runs, |(fault, verb, expected, moment)| {
        one(fault, verb, *expected, *moment)
    });
    let (count, all) = (problems.len(), runs.len());
    println!("{all} signals, {count} problems");
    assert!(
        problems.is_empty(),
        "{count} of {all}:\n{}",
        problems.join("\n")
    );
}

impl Act {
    fn signal(self) -> Option<Signal> {
        match self {
            Self::Interrupt => Some(Signal::INT),
            Self::Terminate => Some(Signal::TERM),
            Self::HangUp => Some(Signal::HUP),
            Self::Kill => Some(Signal::KILL),
            _ => None,
        }
    }
}

fn one(fault: &Fault, verb: &Verb, expected: Expected, moment: f64) -> Option<String> {
    let clean = Models::get().clean(verb);
    let cell = Cell::of(verb);
    let mut setup = fault.act.prepare(&cell, verb)?;
    let before = scratch::snapshot(&cell.work());
    let arguments = setup.arguments.clone();
    let mut running = launch(&cell, &arguments, None, &setup.launch);
    std::thread::sleep(Duration::from_secs_f64(clean.seconds * moment));
    running.signal(fault.act.signal()?);
    let ended = running.end();
    setup.launch = Launch::default();
    let at = |problem| {
        format!(
            "{} at {moment} of {:.3} s: {problem}",
            fault.name, clean.seconds
        )
    };
    let run = Run {
        verb,
        setup: &setup,
        clean,
        before: &before,
        ended: &ended,
        received: None,
    };
    if let Some(problem) = judge(&cell, &run, expected) {
        return Some(at(problem));
    }
    if ended.status > 128 && ended.stderr.contains("error: ") {
        return Some(at(format!("it says {:?}", ended.stderr)));
    }
    // The leftovers of a killed run must not make the next run fail.
    let is_there = verb
        .output
        .as_ref()
        .is_some_and(|name| cell.work().join(name).exists());
    if fault.act == Act::Kill && ended.status != 0 && !is_there {
        let mut again = verb.arguments.clone();
        if verb.output.is_some() {
            again.push("--force".into());
        }
        let again: Vec<_> = again.iter().map(Into::into).collect();
        let ended = launch(&cell, &again, verb.stdin.as_deref(), &Launch::default()).end();
        if ended.status != 0 {
            return Some(at(format!("the next run says {:?}", ended.stderr)));
        }
    }
    None
}

/// Runs `zstn` and sends `signals` once the folder for temporary files is not empty.
fn interrupt(cell: &Cell, words: &[&str], options: &Launch, signals: &[Signal]) -> Ended {
    let words: Vec<OsString> = words.iter().map(Into::into).collect();
    let mut running = launch(cell, &words, None, options);
    let started = Instant::now();
    while scratch::snapshot(&cell.tmp()).is_empty() {
        assert!(running.is_running(), "{:?}", running.end().stderr);
        assert!(started.elapsed() < Duration::from_secs(60), "never began");
        std::thread::sleep(Duration::from_millis(1));
    }
    for signal in signals {
        running.signal(*signal);
        std::thread::sleep(Duration::from_millis(20));
    }
    running.end()
}

fn is_clean(cell: &Cell, ended: &Ended, statuses: &[i32]) {
    assert!(statuses.contains(&ended.status), "{}", ended.stderr);
    let left = scratch::snapshot(&cell.tmp());
    assert!(left.is_empty(), "left in TMPDIR: {:?}", left.keys());
}

#[test]
fn an_agent_of_git_lfs() {
    const MESSAGES: &str = "exec < <(echo '{\"event\":\"init\",\"operation\":\"upload\",\
        \"remote\":\"origin\",\"concurrent\":false,\"concurrenttransfers\":8}'; sleep 5)";
    let cell = Cell::with(std::iter::empty());
    fs::create_dir(cell.work().join("store")).expect("made");
    let options = Launch {
        shell: Some(MESSAGES),
        ..Launch::default()
    };
    let words = ["lfs", "agent", "--store", "store"];
    let ended = interrupt(&cell, &words, &options, &[Signal::TERM]);
    is_clean(&cell, &ended, &[130]);
}

/// The first signal lets a worker finish its current file; the second ends it at once.
#[test]
fn a_worker_at_its_second_signal() {
    let hub = StubHub::start(Options::default()).expect("a hub");
    let cell = Cell::with(std::iter::empty());
    let weights = Rng(5).bf16_weights(20 << 20);
    let file = checkpoint(&[("w", "BF16", &weights)]);
    let plan = plan_of(&hub, "a/b", &[("m.safetensors", &file)], &cell.own(""));
    let plan = plan.to_str().expect("a name");
    let words = [
        "worker",
        "--plan",
        plan,
        "--to",
        "packed",
        "--endpoint",
        hub.url(),
        "--effort",
        "max",
    ];
    let signals = [Signal::TERM, Signal::TERM];
    let ended = interrupt(&cell, &words, &Launch::default(), &signals);
    // The status is 3 if the first signal arrived before the worker began the file.
    is_clean(&cell, &ended, &[3, 130]);
    let packed = scratch::snapshot(&cell.work());
    let is_packed = |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "zstn");
    assert!(!packed.keys().any(is_packed));
}
