//! Sends signals to every verb at several times during its run, and to verbs
//! that have a temporary folder while they wait for work; stops the verbs that
//! run until they are stopped.

use std::ffi::OsString;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use zstn_tests::checkpoint;
use zstn_tests::rng::Rng;
use zstn_tests::stub_hub::{Options, StubHub, plan_of};
use zstn_tests::tier::chosen;

use crate::each;
use crate::inject::Act;
use crate::judge::{Run, judge};
use crate::process::{Ended, Launch, Running, Stream, launch};
use crate::scratch::{self, Cell, Models};
use crate::verb_table::{Expected, Fault, Place, Server, Table, Verb};

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

/// The first signal lets a worker finish the files in progress; the second ends it at once.
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
    // The system merges signals that arrive before the first one is handled, so more
    // than two are sent.
    let signals = [Signal::TERM; 20];
    let ended = interrupt(&cell, &words, &Launch::default(), &signals);
    // The status is 3 if the first signal arrived before the worker began the file.
    is_clean(&cell, &ended, &[3, 130]);
    let packed = scratch::snapshot(&cell.work());
    let is_packed = |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "zstn");
    assert!(!packed.keys().any(is_packed));
}

#[test]
fn servers() {
    let table = Table::load();
    let mut runs = Vec::new();
    for fault in table.faults(Place::Server) {
        for server in &table.servers {
            if let Some(expected) = fault.expected(&table, &server.name) {
                runs.push((fault, server, expected));
            }
        }
    }
    assert!(runs.len() > 10);
    let problems = each(&runs, |(fault, server, expected)| {
        // Another process may have taken the free port, so the run is repeated once.
        let first = one_server(fault, server, *expected);
        let problem = match first {
            Some(problem) if problem.contains("in use") => one_server(fault, server, *expected),
            outcome => outcome,
        }?;
        Some(format!("{}, {}: {problem}", fault.name, server.name))
    });
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn one_server(fault: &Fault, server: &Server, expected: Expected) -> Option<String> {
    let cell = Cell::with(["m.zstn", "m.safetensors"].into_iter());
    for folder in ["folder", "page"] {
        fs::create_dir(cell.work().join(folder)).expect("made");
    }
    fs::write(cell.work().join("page/index.html"), "a page").expect("written");
    // The port is taken while the listener exists.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let taken = (fault.act == Act::PortTaken).then_some(listener);
    let mut options = Launch::default();
    match fault.act {
        Act::Missing => {
            let input = cell.work().join(server.input.as_ref()?);
            match input.is_dir() {
                true => fs::remove_dir_all(input).expect("removed"),
                false => fs::remove_file(input).expect("removed"),
            }
        }
        Act::BrokenStdout => options.stdout = Some(Stream::Broken),
        Act::FullStdout => options.stdout = Some(Stream::Full),
        Act::ClosedStdout => options.shell = Some("exec >&-"),
        Act::ClosedStdin => options.shell = Some("exec <&-"),
        Act::ClosedStderr => options.shell = Some("exec 2>&-"),
        Act::FullStderr => options.shell = Some("exec 2>/dev/full"),
        _ => {}
    }
    let before = scratch::snapshot(&cell.work());
    let port = address.port().to_string();
    let words = server.arguments.iter();
    let words: Vec<OsString> = words
        .map(|word| word.replace("PORT", &port).into())
        .collect();
    let mut running = launch(&cell, &words, None, &options);
    let is_up = taken.is_none() && answers(&mut running, address);
    let serves = expected.outcome.status.contains(&130) || expected.outcome.status.contains(&0);
    if serves && !is_up {
        let ended = running.end_within(Duration::from_secs(1));
        return Some(format!(
            "it never answers: {} {}",
            ended.status, ended.stderr
        ));
    }
    if is_up {
        running.signal(match fault.act {
            Act::Interrupt => Signal::INT,
            Act::HangUp => Signal::HUP,
            Act::Kill => Signal::KILL,
            _ => Signal::TERM,
        });
    }
    let ended = running.end_within(Duration::from_secs(20));
    let mut problems = Vec::new();
    if ended.hung {
        problems.push("it does not end".to_owned());
    }
    if !expected.outcome.status.contains(&ended.status) {
        problems.push(format!("status {}", ended.status));
    }
    for words in expected.says {
        let input = server.input.as_deref().unwrap_or_default();
        let words = words.replace("{input}", input).replace("{port}", &port);
        if !ended.stderr.contains(&words) {
            problems.push(format!("it does not say {words:?}"));
        }
    }
    if ended.stderr.contains("panicked") {
        problems.push("it panicked".into());
    }
    let mut after = scratch::snapshot(&cell.work());
    // A worker's queue remains.
    after.retain(|path, _| !path.starts_with("state"));
    problems.extend(scratch::difference(&before, &after));
    if !scratch::snapshot(&cell.tmp()).is_empty() {
        problems.push("something was left in TMPDIR".into());
    }
    let said = ended.stderr;
    (!problems.is_empty()).then(|| format!("{}\n    said {said:?}", problems.join("; ")))
}

/// Returns whether a server accepts connections before it ends. The listener must
/// belong to this process, because another process may have taken the port.
fn answers(running: &mut Running, address: std::net::SocketAddr) -> bool {
    let started = Instant::now();
    while running.is_running() && started.elapsed() < Duration::from_secs(60) {
        if listens(running.child.id(), address.port()) && TcpStream::connect(address).is_ok() {
            // The server may not have printed its address yet.
            std::thread::sleep(Duration::from_millis(50));
            return running.is_running();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// Returns whether a process has a listening socket on this port.
fn listens(process: u32, port: u16) -> bool {
    /// The state of a listening socket in `/proc/net/tcp`.
    const LISTEN: &str = "0A";
    let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let descriptors = fs::read_dir(format!("/proc/{process}/fd"));
    let descriptors = descriptors.into_iter().flatten().flatten();
    let targets: Vec<_> = descriptors
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .collect();
    let wanted = format!(":{port:04X}");
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // The fields are number, local address, remote address and state; the tenth is
        // the inode.
        let [_, local, _, LISTEN, ..] = fields[..] else {
            return false;
        };
        let inode = fields.get(9).unwrap_or(&"");
        let socket = format!("socket:[{inode}]");
        local.ends_with(&wanted) && targets.iter().any(|target| target.as_os_str() == &*socket)
    })
}
