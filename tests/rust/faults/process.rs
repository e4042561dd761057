//! Starts the command line with default signal handling, as an interactive shell does.

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

/// Time limit of a run; no run takes this long, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// User id of `nobody`, which has no privileges.
const NOBODY: u32 = 65534;

/// Options for starting a run.
#[derive(Default)]
pub struct Launch {
    /// Runs as an unprivileged user, who can write only to world-writable folders.
    pub as_nobody: bool,
    /// Shell command to execute before the program starts, such as `exec >&-`.
    pub shell: Option<&'static str>,
    /// Replacement for standard output, if its content is not checked.
    pub stdout: Option<Stream>,
    /// Overrides the folder for temporary files.
    pub tmp: Option<PathBuf>,
    /// A file, and the offset of a page in it that cannot be read.
    pub unreadable: Option<(PathBuf, u64)>,
    /// Path of the file to use as standard input.
    pub stdin: Option<PathBuf>,
}

/// A stream that accepts no output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// `/dev/full`, which is always out of space.
    Full,
    /// A pipe without a reader.
    Broken,
}

/// A running program.
pub struct Running {
    /// The child process.
    pub child: Child,
    started: Instant,
    out: PathBuf,
    error: PathBuf,
}

/// The result of a run that has ended.
pub struct Ended {
    /// The exit status, or 128 plus the number of the signal that ended the run.
    pub status: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
    /// Duration of the run.
    pub seconds: f64,
    /// True if the run exceeded its time limit and was killed.
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

/// Starts `zstn` as one of several programs in the same folder.
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
    // The test itself may have been started in the background with signals ignored.
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
    /// Returns whether the program is still running.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a status").is_none()
    }

    /// Sends a signal unless the program has ended.
    pub fn signal(&mut self, signal: Signal) {
        if self.is_running() {
            let _ = kill_process(Pid::from_child(&self.child), signal);
        }
    }

    /// Waits for the program to end, up to the default time limit.
    pub fn end(self) -> Ended {
        self.end_within(LIMIT)
    }

    /// Waits for the program to end, up to `limit`, and then kills it.
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
