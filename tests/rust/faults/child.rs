//! Starts the command line, with signals as a shell in front of a person has them.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use zstn_tests::command::{program, text};
use zstn_tests::unreadable;

use crate::scratch::Cell;

/// No run takes this long, on a busy machine either.
const LIMIT: Duration = Duration::from_secs(60);

/// A user who may do nothing (`nobody`).
const NOBODY: u32 = 65534;

/// How a run is started.
#[derive(Default)]
pub struct Launch {
    /// As an unprivileged user, who can write only to world-writable folders.
    pub as_nobody: bool,
    /// What the shell does before it starts the program, such as `exec >&-`.
    pub shell: Option<&'static str>,
    /// Standard output, if it is not to be looked at.
    pub stdout: Option<Stream>,
    /// Another folder for temporary files.
    pub tmp: Option<PathBuf>,
    /// A file, and the offset of a page of it that cannot be read.
    pub unreadable: Option<(PathBuf, u64)>,
    /// The place of a file for standard input.
    pub stdin: Option<PathBuf>,
}

/// A stream that takes no output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// `/dev/full`.
    Full,
    /// A pipe that nobody reads.
    Broken,
}

/// A run that has been started.
pub struct Running {
    /// The process.
    pub child: Child,
    started: Instant,
    out: PathBuf,
    error: PathBuf,
}

/// A run that has ended.
pub struct Ended {
    /// The exit status; 128 and the signal that has ended it.
    pub status: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
    /// How long it took.
    pub seconds: f64,
    /// Whether it had to be killed.
    pub hung: bool,
}

/// Starts `zstn` in the folder of a cell.
pub fn launch(
    cell: &Cell,
    arguments: &[OsString],
    stdin: Option<&str>,
    options: &Launch,
) -> Running {
    launch_as(cell, arguments, stdin, options, "")
}

/// The same, for one of several in a folder.
pub fn launch_as(
    cell: &Cell,
    arguments: &[OsString],
    stdin: Option<&str>,
    options: &Launch,
    name: &str,
) -> Running {
    let (out, error) = (
        cell.own(&format!("stdout{name}")),
        cell.own(&format!("stderr{name}")),
    );
    // A background process may have been started with signals ignored.
    let mut command = Command::new("env");
    command.arg("--default-signal");
    if let Some(shell) = options.shell {
        let shell = format!("{shell}; exec \"$0\" \"$@\"");
        command.args([OsStr::new("bash"), OsStr::new("-c"), OsStr::new(&shell)]);
    }
    command.arg(program()).args(arguments);
    let create = |path| Stdio::from(File::create(path).expect("a file"));
    command
        .current_dir(cell.work())
        .env("TMPDIR", options.tmp.clone().unwrap_or(cell.tmp()))
        .env("GIT_CEILING_DIRECTORIES", cell.work())
        .env("HOME", cell.tmp())
        .env_remove("HF_TOKEN")
        .stdin(
            match options
                .stdin
                .clone()
                .or(stdin.map(|name| cell.work().join(name)))
            {
                Some(path) => File::open(path).expect("an input").into(),
                None => Stdio::null(),
            },
        )
        .stdout(match options.stdout {
            None => create(&out),
            Some(Stream::Full) => File::create("/dev/full").expect("a device").into(),
            Some(Stream::Broken) => {
                let (reader, writer) = std::io::pipe().expect("a pipe");
                drop(reader);
                writer.into()
            }
        })
        .stderr(create(&error));
    if let Some((path, page)) = &options.unreadable {
        unreadable::set(&mut command, path, *page);
    }
    if options.as_nobody && rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    Running {
        started: Instant::now(),
        child: command.spawn().expect("zstn runs"),
        out,
        error,
    }
}

impl Running {
    /// Returns whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a status").is_none()
    }

    /// Sends a signal, unless it has ended.
    pub fn signal(&mut self, signal: Signal) {
        if self.is_running() {
            let _ = kill_process(Pid::from_child(&self.child), signal);
        }
    }

    /// Waits for the end, for a limited time.
    pub fn end(self) -> Ended {
        self.end_within(LIMIT)
    }

    /// Waits for the end, for this time.
    pub fn end_within(mut self, limit: Duration) -> Ended {
        let mut hung = false;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a status") {
                break status;
            }
            if self.started.elapsed() > limit && !hung {
                hung = true;
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        Ended {
            status: status
                .code()
                .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            stdout: fs::read(&self.out).unwrap_or_default(),
            stderr: text(&fs::read(&self.error).unwrap_or_default()),
            seconds: self.started.elapsed().as_secs_f64(),
            hung,
        }
    }
}
