//! Runs the `zstn` program under test, with pipes or in a pseudoterminal.

#[cfg(unix)]
use std::ffi::OsStr;
#[cfg(unix)]
use std::fs::File;
#[cfg(unix)]
use std::io::Read;
#[cfg(unix)]
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::process::ExitStatus;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

#[cfg(unix)]
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::repository;

/// Returns the path of the program under test: `$ZSTN_BIN` if set, otherwise the
/// program built from this workspace.
///
/// # Panics
/// If the program cannot be built.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| std::env::var_os("ZSTN_BIN").map_or_else(built, PathBuf::from))
}

fn built() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "-p", "zstn-cli"])
        .current_dir(repository())
        .status()
        .expect("cargo runs");
    assert!(status.success());
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| repository().join("target"), PathBuf::from);
    target.join("debug").join("zstn")
}

/// Runs `zstn` in `folder` and waits for it to end.
///
/// # Panics
/// If the program cannot be built or started.
#[must_use]
pub fn zstn(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(program())
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("zstn runs")
}

/// Returns a command that runs `zstn` with the default action for every signal (on
/// Linux). Tests may themselves run under `nohup` or as a shell's background job, and a
/// child would inherit the signals ignored there.
#[must_use]
pub fn zstn_with_signals() -> Command {
    if !cfg!(target_os = "linux") {
        return Command::new(program());
    }
    let mut command = Command::new("env");
    command.arg("--default-signal").arg(program());
    command
}

/// Returns whether this process ignores a signal, which its children inherit. This is
/// the case under `nohup` or in a shell's background job.
#[cfg(unix)]
#[must_use]
pub fn is_ignored(signal: rustix::process::Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (signal.as_raw() - 1) & 1 == 1)
}

/// A process that is killed when dropped.
#[derive(Debug)]
pub struct KillOnDrop(pub Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Decodes program output as UTF-8, lossily.
#[must_use]
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Parses the JSON value that a program printed to standard output.
///
/// # Panics
/// If the program failed or its output is not JSON.
#[must_use]
pub fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// Runs `zstn` in `folder` with a pseudoterminal as standard output and standard error.
/// Returns the exit status and the output.
///
/// # Panics
/// If no pseudoterminal is available, or the program cannot be started.
#[cfg(unix)]
#[must_use]
pub fn zstn_on_terminal(folder: &Path, arguments: &[&str]) -> (ExitStatus, String) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudoterminal");
    grantpt(&master).expect("granted");
    unlockpt(&master).expect("unlocked");
    let name = ptsname(&master, Vec::new()).expect("its name");
    let terminal = File::options()
        .read(true)
        .write(true)
        .open(OsStr::from_bytes(name.as_bytes()))
        .expect("its other end");
    let mut command = Command::new(program());
    command
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(terminal.try_clone().expect("a descriptor"))
        .stderr(terminal);
    let mut child = command.spawn().expect("zstn runs");
    // The parent must not hold the other end open, or reading never ends.
    drop(command);
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    let mut master = File::from(master);
    // When all writers have closed the terminal, Linux returns an error; other systems
    // return the end of the file.
    while let Ok(len @ 1..) = master.read(&mut buffer) {
        received.extend_from_slice(&buffer[..len]);
    }
    let status = child.wait().expect("zstn ends");
    (status, String::from_utf8_lossy(&received).into_owned())
}
