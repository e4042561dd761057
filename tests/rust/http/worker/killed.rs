//! Workers that stop or crash, and the workers that continue after them.

use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use zstn_tests::command::{KillOnDrop, program};
use zstn_tests::schema;
use zstn_tests::stub_hub::Fault;

use super::{Desk, SECRET, TOKEN, names, payload, post, wait, weights};

/// A worker in a separate process.
struct Process {
    child: KillOnDrop,
    lines: BufReader<ChildStdout>,
    url: String,
}

impl Process {
    fn start(desk: &Desk, grace: &str) -> Self {
        let mut child = Command::new(program())
            .args([
                "worker",
                "--listen",
                "127.0.0.1:0",
                "--json",
                "--grace",
                grace,
            ])
            .args([
                "--endpoint",
                desk.stub.url(),
                "--secret-env",
                "WEBHOOK_SECRET",
            ])
            .arg("--state")
            .arg(desk.state())
            .env("HF_TOKEN", TOKEN)
            .env("WEBHOOK_SECRET", SECRET)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut process = Self {
            child: KillOnDrop(child),
            lines,
            url: String::new(),
        };
        let listening = process.until(|line| line["event"] == "listening");
        process.url = listening["url"].as_str().unwrap().into();
        process
    }

    /// Reads log lines until one satisfies the condition.
    fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "it has ended");
            let line: Value = serde_json::from_str(&line).unwrap();
            schema::check("worker", &line);
            if is_it(&line) {
                return line;
            }
        }
    }

    fn until_stage(&mut self, stage: &str) -> Value {
        self.until(|line| line["stage"] == stage)
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.0.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }
}

/// Pushes three files. The uploads of the first `good` packed files are normal; the
/// others are delayed.
fn interrupted(desk: &Desk, good: usize, wait_ms: u64) -> (Vec<Vec<u8>>, String) {
    let before = desk.head();
    let files: Vec<_> = (1..4).map(|seed| weights("a", seed)).collect();
    let new = desk.push(&[
        ("1.safetensors", &files[0]),
        ("2.safetensors", &files[1]),
        ("3.safetensors", &files[2]),
    ]);
    desk.stub.clear_log();
    desk.stub.inject(Fault {
        path: "/cdn/".into(),
        method: "PUT".into(),
        skip: good,
        wait_ms,
        ..Fault::default()
    });
    (files, payload(&before, &new))
}

/// Waits until the upload of the second file has begun.
fn wait_for_second(desk: &Desk) {
    let is_batch = |path: &str| path.ends_with("/objects/batch");
    let batches = || desk.stub.log().iter().filter(|r| is_batch(&r.path)).count();
    wait(|| batches() >= 2, || "the second upload".into());
}

fn done(desk: &Desk) -> usize {
    names(&desk.state().join("results/done")).len()
}

/// Returns the recorded number of attempts of the only job.
fn attempts(desk: &Desk) -> Value {
    let folder = desk.jobs("queued");
    let job = std::fs::read(folder.join(&names(&folder)[0])).unwrap();
    serde_json::from_slice::<Value>(&job).unwrap()["attempts"].clone()
}

fn queued(desk: &Desk) -> usize {
    names(&desk.jobs("queued")).len()
}

/// Starts the next worker and checks that it does exactly the remaining work.
fn finish(desk: &Desk, files: &[Vec<u8>], reused: usize) {
    desk.stub.heal();
    let before = done(desk);
    let mut worker = Process::start(desk, "25");
    for _ in 0..reused {
        worker.until_stage("reused");
    }
    worker.until_stage("committed");
    wait(|| queued(desk) == 0, || "an empty queue".into());
    assert_eq!((before, done(desk)), (reused, 3));
    // Only the worker's own folder and its lock exist; leftovers of the killed worker
    // were removed.
    assert_eq!(names(&desk.state().join("work")).len(), 2);
    for (number, file) in files.iter().enumerate() {
        assert!(desk.unpacked(&format!("{}.zstn", number + 1)) == *file);
    }
    let log = desk.stub.log();
    let commits = log
        .iter()
        .filter(|r| r.path.contains("/commit/") && r.method == "POST");
    assert_eq!(commits.count(), 1);
}

#[test]
fn a_killed_worker_is_continued() {
    let desk = Desk::new();
    let (files, body) = interrupted(&desk, 1, 600_000);
    let mut worker = Process::start(&desk, "25");
    assert_eq!(post(&worker.url, Some(SECRET), &body).0, 202);
    worker.until_stage("packed");
    wait_for_second(&desk);
    worker.signal(Signal::KILL);
    worker.child.0.wait().unwrap();
    assert_eq!((queued(&desk), done(&desk)), (1, 1));
    assert_eq!(attempts(&desk), 1);
    finish(&desk, &files, 1);
}

#[test]
fn a_worker_that_was_asked_to_end_finishes_its_files() {
    let desk = Desk::new();
    let (files, body) = interrupted(&desk, 0, 1500);
    let mut worker = Process::start(&desk, "600");
    assert_eq!(post(&worker.url, Some(SECRET), &body).0, 202);
    worker.until_stage("started");
    worker.signal(Signal::TERM);
    worker.until_stage("given_back");
    assert!(worker.child.0.wait().unwrap().success());
    assert_eq!(queued(&desk), 1);
    // The third file begins after the first or the second.
    assert!(done(&desk) <= 2);
    finish(&desk, &files, done(&desk));
}

#[test]
fn a_file_that_takes_too_long_is_given_back() {
    let desk = Desk::new();
    let (files, body) = interrupted(&desk, 1, 600_000);
    let mut worker = Process::start(&desk, "0");
    assert_eq!(post(&worker.url, Some(SECRET), &body).0, 202);
    worker.until_stage("packed");
    wait_for_second(&desk);
    worker.signal(Signal::TERM);
    worker.until_stage("given_back");
    assert!(worker.child.0.wait().unwrap().success());
    assert_eq!(attempts(&desk), 0);
    finish(&desk, &files, 1);
}

#[test]
fn a_second_signal_ends_at_once() {
    let desk = Desk::new();
    let (files, body) = interrupted(&desk, 1, 600_000);
    let mut worker = Process::start(&desk, "600");
    assert_eq!(post(&worker.url, Some(SECRET), &body).0, 202);
    worker.until_stage("packed");
    wait_for_second(&desk);
    worker.signal(Signal::TERM);
    worker.until(|line| line["event"] == "ending");
    worker.signal(Signal::TERM);
    assert_eq!(worker.child.0.wait().unwrap().code(), Some(130));
    finish(&desk, &files, 1);
}

#[test]
fn what_is_missing_is_said() {
    let run = |arguments: &[&str]| {
        let out = Command::new(program())
            .arg("worker")
            .args(arguments)
            .output()
            .unwrap();
        (out.status.code(), String::from_utf8(out.stderr).unwrap())
    };
    let state = tempfile::tempdir().unwrap();
    let state = state.path().to_str().unwrap();
    let (code, said) = run(&["--listen", "0.0.0.0:0", "--state", state]);
    assert_eq!(code, Some(2));
    assert!(said.contains("--secret-env"), "{said}");
    let (code, said) = run(&[
        "--listen",
        "127.0.0.1:0",
        "--state",
        state,
        "--secret-env",
        "NO_SUCH",
    ]);
    assert_eq!(code, Some(2));
    assert!(said.contains("NO_SUCH"), "{said}");
    assert_eq!(run(&["--state", state]).0, Some(2));
    assert_eq!(
        run(&["--plan", "p", "--to", "x", "--shard", "2/2"]).0,
        Some(2)
    );
}
