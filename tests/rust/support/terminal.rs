//! Runs the command line on a terminal of its own.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::command::program;

/// Runs `zstn` in `folder` with a terminal for standard output and standard
/// error. Returns its exit status and the output of the terminal.
///
/// # Panics
/// If there are no pseudoterminals, or the program cannot be started.
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
    // Only the child keeps the other end open.
    drop(command);
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    let mut master = File::from(master);
    // After the last writer, Linux returns an error, other systems the end.
    while let Ok(len @ 1..) = master.read(&mut buffer) {
        received.extend_from_slice(&buffer[..len]);
    }
    let status = child.wait().expect("zstn ends");
    (status, String::from_utf8_lossy(&received).into_owned())
}
