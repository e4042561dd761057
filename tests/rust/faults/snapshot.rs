//! What is in a folder.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Everything below a folder, by its path in it.
pub type Snapshot = BTreeMap<PathBuf, Entry>;

/// Something in a folder.
#[derive(Clone, PartialEq, Eq)]
pub enum Entry {
    /// A file and its bytes.
    File(Vec<u8>),
    /// A folder.
    Folder,
    /// A symbolic link and where it leads.
    Link(PathBuf),
    /// A pipe.
    Pipe,
    /// Something else.
    Other,
}

/// Returns what is below `folder`. What a running program removes meanwhile is
/// left out.
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

/// Returns `None` for what is not there any more.
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
