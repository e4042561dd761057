//! Runs the command line in a pseudoterminal.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::command::program;

/// Runs `zstn` in `folder` with a pseudoterminal as standard output and standard error.
/// Returns the exit status and the output.
///
/// # Panics
/// If no pseudoterminal is available, or the program cannot be started.
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
