//! A run that is ready to start, with its fault brought about.

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
    /// What is typed.
    pub arguments: Vec<OsString>,
    /// How it is started.
    pub launch: Launch,
    /// The input in messages.
    pub input: String,
    /// The output in messages.
    pub output: String,
    /// The path at which the output appears instead.
    pub lands: Option<PathBuf>,
    /// What reads the stream that is the output.
    pub received: Option<JoinHandle<Vec<u8>>>,
    /// What is done once the input is open.
    pub meanwhile: Option<Act>,
    /// Listens until the end.
    pub socket: Option<UnixListener>,
    /// Is there until the end.
    pub disk: Option<Disk>,
}

/// Returns the path of the input, by the name that it has now.
pub fn input_path(cell: &Cell, setup: &Setup) -> PathBuf {
    cell.work().join(&setup.input)
}

/// Cuts a file.
pub fn cut(path: &Path, len: impl FnOnce(u64) -> u64) {
    let file = fs::File::options().write(true).open(path).expect("opened");
    let len_bytes = file.metadata().expect("its length").len();
    file.set_len(len(len_bytes)).expect("cut");
}

impl Setup {
    /// Puts `name` in place of an argument.
    pub fn replace(&mut self, argument: &Option<String>, name: &OsString) {
        for word in &mut self.arguments {
            if argument.as_ref().is_some_and(|old| word == old.as_str()) {
                word.clone_from(name);
            }
        }
    }

    /// Has the verb write to `name`.
    pub fn output_is(&mut self, verb: &Verb, name: OsString) {
        self.replace(&verb.output, &name);
        self.output = name.display().to_string();
    }
}
