//! The unfinished outputs of this process, for a program that has to stop.
//!
//! Stopping and publishing exclude each other: an output gets its name before
//! the clean-up begins, and is then complete, or never.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

static STATE: Mutex<State> = Mutex::new(State {
    is_stopping: false,
    paths: BTreeMap::new(),
});

struct State {
    is_stopping: bool,
    /// The paths that are not finished.
    paths: BTreeMap<PathBuf, Entry>,
}

struct Entry {
    shown: Shown,
    /// The thread that began it.
    thread: ThreadId,
    /// The process that began it. A child that was forked has a copy of the entry, but the
    /// output is its parent's.
    process: u32,
}

impl Entry {
    fn is_ours(&self) -> bool {
        self.process == process::id()
    }
}

/// What messages call an unfinished path and those below it, whose own names say
/// nothing to a person.
#[derive(Debug, Clone)]
pub(super) enum Shown {
    /// By their own names.
    AsIs,
    /// By the name of the output, even a file below it.
    Output(PathBuf),
    /// As what they are in the folder of the output.
    Folder(PathBuf),
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Remembers a path for as long as it is not finished.
#[derive(Debug)]
pub(super) struct Unfinished(PathBuf);

impl Unfinished {
    /// Makes an output and remembers its `path`, unless the process is about to
    /// stop.
    pub(super) fn create<T>(
        shown: Shown,
        make: impl FnOnce() -> io::Result<T>,
        path: impl FnOnce(&T) -> &Path,
    ) -> io::Result<(Self, T)> {
        let mut state = state();
        if state.is_stopping {
            return Err(stopping());
        }
        let made = make()?;
        let path = path(&made).to_path_buf();
        let thread = thread::current().id();
        let entry = Entry {
            shown,
            thread,
            process: process::id(),
        };
        state.paths.insert(path.clone(), entry);
        Ok((Self(path), made))
    }

    /// Has `rename` give the output its name, unless the process is about to
    /// stop. While it runs the process does not stop.
    pub(super) fn publish<T>(self, rename: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let mut state = state();
        if state.is_stopping {
            return Err(stopping());
        }
        if !state.paths.contains_key(&self.0) {
            // Removed by `remove_unfinished_of`.
            return Err(stopping());
        }
        let done = rename()?;
        state.paths.remove(&self.0);
        drop(state);
        Ok(done)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        state().paths.remove(&self.0);
    }
}

/// Refuses to begin or complete an output elsewhere once the process is about to
/// stop.
pub(super) fn check_running() -> io::Result<()> {
    match state().is_stopping {
        true => Err(stopping()),
        false => Ok(()),
    }
}

/// Returns what messages call a path, which may be that of an unfinished output or
/// below it.
pub(crate) fn shown(path: &Path) -> PathBuf {
    let state = state();
    let known = path
        .ancestors()
        .find_map(|folder| Some((folder, &state.paths.get(folder)?.shown)));
    match known {
        Some((_, Shown::Output(output))) => output.clone(),
        Some((folder, Shown::Folder(output))) => match path.strip_prefix(folder) {
            Ok(below) if !below.as_os_str().is_empty() => output.join(below),
            _ => output.clone(),
        },
        Some((_, Shown::AsIs)) | None => path.into(),
    }
}

fn stopping() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, "the program is stopping")
}

/// Removes every output of this process that is not finished: for the handler
/// of a signal, just before it ends the process. What is finished stays; from
/// now on no output of this process is begun or gets its name, and work that
/// goes on fails.
pub fn remove_unfinished() {
    let mut state = state();
    state.is_stopping = true;
    for (path, _) in state.paths.iter().filter(|(_, entry)| entry.is_ours()) {
        remove(path);
    }
}

/// Removes the outputs that a thread has begun and not finished: none of them gets its
/// name. For a program that leaves a thread behind which waits for something and
/// cannot be stopped.
pub fn remove_unfinished_of(thread: ThreadId) {
    state().paths.retain(|path, entry| {
        let is_kept = entry.thread != thread || !entry.is_ours();
        if !is_kept {
            remove(path);
        }
        is_kept
    });
}

fn remove(path: &Path) {
    if fs::remove_file(path).is_ok() {
        return;
    }
    // Another thread may put a file into a folder while it is emptied.
    for _ in 0..10 {
        if fs::remove_dir_all(path).is_ok() || !path.exists() {
            break;
        }
    }
}
