//! A run that is ready to start, with its fault in place.

use std::ffi::OsString;
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use crate::act::Act;
use crate::child::Launch;
use crate::place::Disk;
use crate::scratch::Cell;
use crate::table::Verb;

/// A run that is ready to start.
pub struct Setup {
    /// The command-line arguments.
    pub arguments: Vec<OsString>,
    /// Options for starting the run.
    pub launch: Launch,
    /// The input's name as messages show it.
    pub input: String,
    /// The output's name as messages show it.
    pub output: String,
    /// The path where the output appears, if it differs from the given one.
    pub lands: Option<PathBuf>,
    /// The thread that reads the pipe used as the output.
    pub received: Option<JoinHandle<Vec<u8>>>,
    /// The change to make once the input is open.
    pub meanwhile: Option<Act>,
    /// A socket that stays bound until the end of the run.
    pub socket: Option<UnixListener>,
    /// A disk that stays mounted until the end of the run.
    pub disk: Option<Disk>,
}

/// Returns the path of the input under its current name.
pub fn input_path(cell: &Cell, setup: &Setup) -> PathBuf {
    cell.work().join(&setup.input)
}

/// Truncates a file to the length that `len` computes from its current length.
pub fn cut(path: &Path, len: impl FnOnce(u64) -> u64) {
    let file = fs::File::options().write(true).open(path).expect("opened");
    let len_bytes = file.metadata().expect("its length").len();
    file.set_len(len(len_bytes)).expect("cut");
}

impl Setup {
    /// Replaces an argument with `name`.
    pub fn replace(&mut self, argument: &Option<String>, name: &OsString) {
        for word in &mut self.arguments {
            if argument.as_ref().is_some_and(|old| word == old.as_str()) {
                word.clone_from(name);
            }
        }
    }

    /// Makes the verb write to `name`.
    pub fn output_is(&mut self, verb: &Verb, name: OsString) {
        self.replace(&verb.output, &name);
        self.output = name.display().to_string();
    }
}
