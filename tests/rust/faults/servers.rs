//! Verbs that run until they are stopped.

use std::ffi::OsString;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::inject::Act;
use crate::process::{Launch, Running, Stream, launch};
use crate::scratch::Cell;
use crate::table::{Expected, Fault, Place, Server, Table};
use crate::{each, scratch};

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
        let first = one(fault, server, *expected);
        let problem = match first {
            Some(problem) if problem.contains("in use") => one(fault, server, *expected),
            outcome => outcome,
        }?;
        Some(format!("{}, {}: {problem}", fault.name, server.name))
    });
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn one(fault: &Fault, server: &Server, expected: Expected) -> Option<String> {
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
