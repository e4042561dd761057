//! Snapshots of a folder's contents.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// All entries below a folder, by relative path.
pub type Snapshot = BTreeMap<PathBuf, Entry>;

/// An entry of a folder.
#[derive(Clone, PartialEq, Eq)]
pub enum Entry {
    /// A file with its bytes.
    File(Vec<u8>),
    /// A folder; its contents have entries of their own.
    Folder,
    /// A symbolic link with its target.
    Link(PathBuf),
    /// A named pipe.
    Pipe,
    /// An entry of another type.
    Other,
}

/// Returns the contents of `folder`. Entries that a running program removes during the
/// scan are skipped.
pub fn of(folder: &Path) -> Snapshot {
    let mut found = Snapshot::new();
    add(folder, Path::new(""), &mut found);
    found
}

fn add(root: &Path, below: &Path, found: &mut Snapshot) {
    let Some(entries) = present(fs::read_dir(root.join(below))) else {
        return;
    };
    for entry in entries.map(|entry| entry.expect("an entry")) {
        let path = below.join(entry.file_name());
        if let Some(entry) = present(read(&entry)) {
            if entry == Entry::Folder {
                add(root, &path, found);
            }
            found.insert(path, entry);
        }
    }
}

fn read(entry: &DirEntry) -> io::Result<Entry> {
    let kind = entry.file_type()?;
    Ok(if kind.is_dir() {
        Entry::Folder
    } else if kind.is_symlink() {
        Entry::Link(fs::read_link(entry.path())?)
    } else if kind.is_file() {
        Entry::File(fs::read(entry.path())?)
    } else if kind.is_fifo() {
        Entry::Pipe
    } else {
        Entry::Other
    })
}

/// Converts the error "not found" to `None`.
fn present<T>(result: io::Result<T>) -> Option<T> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        result => Some(result.expect("something in a folder of the test")),
    }
}

/// Describes how `after` differs from `expected`; `None` if it does not.
pub fn difference(expected: &Snapshot, after: &Snapshot) -> Option<String> {
    let mut said = Vec::new();
    for (path, entry) in expected {
        match after.get(path) {
            None => said.push(format!("{} is missing", path.display())),
            Some(now) if now != entry => said.push(format!("{} has changed", path.display())),
            Some(_) => {}
        }
    }
    let new = after.keys().filter(|path| !expected.contains_key(*path));
    said.extend(new.map(|path| format!("{} was left", path.display())));
    (!said.is_empty()).then(|| said.join(", "))
}
