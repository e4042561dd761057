//! Signals to verbs that have a temporary folder while they wait for work.

use std::ffi::OsString;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use zstn_tests::checkpoint;
use zstn_tests::plans::plan_of;
use zstn_tests::rng::Rng;
use zstn_tests::stub_hub::{Options, StubHub};

use crate::child::{Ended, Launch, launch};
use crate::scratch::Cell;
use crate::snapshot;

/// Runs `zstn` and sends `signals` once the folder for temporary files is not empty.
fn interrupt(cell: &Cell, words: &[&str], options: &Launch, signals: &[Signal]) -> Ended {
    let words: Vec<OsString> = words.iter().map(Into::into).collect();
    let mut running = launch(cell, &words, None, options);
    let started = Instant::now();
    while snapshot::of(&cell.tmp()).is_empty() {
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
    let left = snapshot::of(&cell.tmp());
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
    let packed = snapshot::of(&cell.work());
    let is_packed = |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "zstn");
    assert!(!packed.keys().any(is_packed));
}
