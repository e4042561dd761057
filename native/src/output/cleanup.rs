//! Removes unfinished outputs: the outputs of this process before it stops, and the
//! hidden files and folders that killed runs have left.
//!
//! Stopping and publishing exclude each other: an output either gets its final name
//! before the clean-up begins, and is then complete, or it never gets that name.
//!
//! The leftovers of killed runs are removed when the next run writes into their folder. A
//! process locks each hidden file while it works on it, so a free lock shows that the
//! process has ended. On some network file systems, other machines do not see the lock.
//! The name therefore contains a tag of the machine, and the leftovers of another machine
//! are removed only after a day.

use std::collections::BTreeMap;
#[cfg(unix)]
use std::collections::HashSet;
#[cfg(unix)]
use std::fs::OpenOptions;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
#[cfg(unix)]
use std::time::Duration;
use std::{io, process};

use tempfile::{Builder, NamedTempFile, TempDir};

use super::temporary::PART_SUFFIX;

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
    /// The process that began it. A child that was forked has a copy of the entry, but
    /// the output belongs to its parent.
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

/// The registration of an unfinished output in `STATE`, which lasts until the output is
/// published or dropped.
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

/// Returns the path that messages use for `path`. If `path` is an unfinished output or
/// inside one, messages name its path in the complete output.
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

/// The age at which the leftovers of another machine are removed.
#[cfg(unix)]
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// The maximum number of attempts to create a hidden file or folder. An attempt fails
/// if another process removes the file before it is locked.
const ATTEMPTS: usize = 10;

/// The maximum number of folders that are remembered as swept.
#[cfg(unix)]
const MAX_SWEPT: usize = 1000;

/// A hidden folder with its lock.
#[derive(Debug)]
pub(super) struct HiddenFolder {
    folder: TempDir,
    #[cfg(unix)]
    _lock: Option<File>,
}

impl HiddenFolder {
    /// Wraps a folder that does not need a lock, because other processes do not take a
    /// folder of this name for a leftover.
    pub(super) fn unlocked(folder: TempDir) -> Self {
        Self {
            folder,
            #[cfg(unix)]
            _lock: None,
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Keeps the folder on disk when this handle is dropped.
    pub(super) fn keep(self) {
        let _ = self.folder.keep();
    }
}

/// Creates and locks a hidden file in `folder`, and removes the leftovers of killed
/// runs there.
pub(super) fn create_file(folder: &Path, builder: &mut Builder) -> io::Result<NamedTempFile> {
    sweep(folder);
    builder.suffix(suffix());
    for _ in 1..ATTEMPTS {
        let file = builder.tempfile_in(folder)?;
        if lock(file.as_file()) && is_there(file.path()) {
            return Ok(file);
        }
    }
    builder.tempfile_in(folder)
}

/// Creates a hidden folder in `parent`, like [`create_file`].
pub(super) fn create_folder(parent: &Path, builder: &mut Builder) -> io::Result<HiddenFolder> {
    sweep(parent);
    builder.suffix(suffix());
    #[cfg(unix)]
    for _ in 1..ATTEMPTS {
        let folder = builder.tempdir_in(parent)?;
        let file = File::open(folder.path()).ok();
        if file.as_ref().is_none_or(lock) && is_there(folder.path()) {
            return Ok(HiddenFolder {
                folder,
                _lock: file,
            });
        }
    }
    Ok(HiddenFolder {
        folder: builder.tempdir_in(parent)?,
        #[cfg(unix)]
        _lock: None,
    })
}

/// Locks a hidden file until it is closed. Returns `false` if another process has the
/// lock; that process is about to remove the file. Returns `true` on a file system
/// without locks, where no process removes leftovers.
fn lock(file: &File) -> bool {
    #[cfg(unix)]
    {
        use rustix::fs::{FlockOperation, flock};
        use rustix::io::Errno;
        let locked = flock(file, FlockOperation::NonBlockingLockExclusive);
        !matches!(locked, Err(Errno::WOULDBLOCK))
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        true
    }
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Returns the suffix of all hidden names, including the tag of this machine.
fn suffix() -> &'static str {
    static SUFFIX: OnceLock<String> = OnceLock::new();
    SUFFIX.get_or_init(|| {
        let host = fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
        let digest = zstn_core::digest::of_pieces([&host[..]]);
        let tag = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
        format!(".{tag:08x}{PART_SUFFIX}")
    })
}

/// Removes the leftovers of killed runs in `folder`, once per process. Entries that
/// cannot be removed are left for another run.
fn sweep(folder: &Path) {
    #[cfg(unix)]
    {
        static SWEPT: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);
        let mut swept = SWEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let swept = swept.get_or_insert_default();
        if swept.len() >= MAX_SWEPT {
            swept.clear();
        }
        if !swept.insert(folder.into()) {
            return;
        }
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_str().filter(|name| name.starts_with('.'));
            if name.is_some_and(|name| name.ends_with(PART_SUFFIX)) {
                let _ = remove_leftover(&entry.path(), name.unwrap_or_default());
            }
        }
    }
    #[cfg(not(unix))]
    let _ = folder;
}

/// Removes a hidden file or folder whose process has ended.
#[cfg(unix)]
fn remove_leftover(path: &Path, name: &str) -> io::Result<()> {
    use rustix::fs::{FlockOperation, OFlags, flock};
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

    let found = path.symlink_metadata()?;
    let is_ours = name.ends_with(suffix());
    let is_old = || found.modified()?.elapsed().map_err(io::Error::other);
    if !is_ours && is_old()? < ABANDONED {
        return Ok(());
    }
    let mut options = OpenOptions::new();
    options.read(true).write(found.is_file());
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options
        .custom_flags(i32::try_from(flags.bits()).unwrap_or_default())
        .open(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    // The name may meanwhile belong to another file.
    let locked = file.metadata()?;
    let same = path.symlink_metadata()?;
    if (locked.dev(), locked.ino()) != (same.dev(), same.ino()) {
        return Ok(());
    }
    match (found.is_file(), found.is_dir()) {
        (true, _) => fs::remove_file(path),
        (_, true) => fs::remove_dir_all(path),
        _ => Ok(()),
    }
}
