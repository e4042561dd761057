//! Registers the unfinished outputs of this process, so that a program can remove them
//! before it stops.
//!
//! Stopping and publishing exclude each other: an output either gets its final name
//! before the clean-up begins, and is then complete, or it never gets that name.

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
    /// The temporary paths of unfinished outputs.
    paths: BTreeMap<PathBuf, Entry>,
}

struct Entry {
    shown: Shown,
    /// The thread that began the output.
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

/// The name that messages use for an unfinished path and the paths below it, whose
/// temporary names mean nothing to a person.
#[derive(Debug, Clone)]
pub(super) enum Shown {
    /// The path itself.
    AsIs,
    /// The path of the output, even for files below the temporary path.
    Output(PathBuf),
    /// The path of the output folder, followed by the relative path of the file in it.
    Folder(PathBuf),
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An entry in the registry, which lasts until the output is published or dropped.
#[derive(Debug)]
pub(super) struct Unfinished(PathBuf);

impl Unfinished {
    /// Makes an output and registers its `path`, unless the process is about to stop.
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

    /// Runs `rename`, which gives the output its final name, unless the process is
    /// about to stop. The process does not stop while `rename` runs.
    pub(super) fn publish<T>(self, rename: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let mut state = state();
        if state.is_stopping {
            return Err(stopping());
        }
        if !state.paths.contains_key(&self.0) {
            // The output was removed by `remove_unfinished_of`.
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

/// Refuses to begin or complete an output that has no temporary path once the process
/// is about to stop.
pub(super) fn check_running() -> io::Result<()> {
    match state().is_stopping {
        true => Err(stopping()),
        false => Ok(()),
    }
}

/// Returns the path that messages use for `path`, which may be that of an unfinished
/// output or be below one.
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

/// Removes every unfinished output of this process. A signal handler should call this
/// right before it ends the process. Finished outputs stay. After this call, no output
/// of this process can be begun or get its final name, and running work fails.
pub fn remove_unfinished() {
    let mut state = state();
    state.is_stopping = true;
    for (path, _) in state.paths.iter().filter(|(_, entry)| entry.is_ours()) {
        remove(path);
    }
}

/// Removes the unfinished outputs that a thread has begun: none of them will get its
/// final name. This is for a program that abandons a thread that is blocked and cannot
/// be stopped.
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
    // Another thread may add a file to a folder while it is being emptied.
    for _ in 0..10 {
        if fs::remove_dir_all(path).is_ok() || !path.exists() {
            break;
        }
    }
}
