//! The bases of files in packed checkpoints of training runs (docs/training.md). Their
//! description, in the folder of every checkpoint, names the checkpoint that has the base.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use zstn::Location;
use zstn::internals::MAX_BASES;

/// Name of the description in the folder of a packed checkpoint.
const DESCRIPTION: &str = "zstn-checkpoint.json";
const FORMAT: &str = "zstn-checkpoint-1";

/// Longest accepted description in bytes, as in Python.
const MAX_BYTES: u64 = 64 << 20;

/// The keys of a description that lead to the bases of a file.
#[derive(Deserialize)]
struct Description {
    format: String,
    is_file: bool,
    files: Vec<Stored>,
}

#[derive(Deserialize)]
struct Stored {
    path: String,
    stored: String,
    base: Option<String>,
    base_path: Option<String>,
}

impl Description {
    fn read(checkpoint: &Path) -> Option<Self> {
        let file = File::open(checkpoint.join(DESCRIPTION)).ok()?;
        let mut text = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut text).ok()?;
        let found: Self = serde_json::from_slice(&text).ok()?;
        (found.format == FORMAT).then_some(found)
    }

    /// Returns the number of the file that is the base of `file` in the checkpoint
    /// `other`.
    fn base_of(&self, other: &Self, file: &Stored) -> Option<usize> {
        let at = |path: &str| self.files.iter().position(|one| one.path == path);
        match (&file.base_path, self.is_file, other.is_file) {
            (Some(path), ..) => at(path),
            // The names of checkpoints that are single files differ.
            (None, true, true) => Some(0),
            (None, false, false) => at(&file.path),
            _ => None,
        }
    }
}

/// Returns the bases of a local delta, nearest first, if the file is part of a packed
/// checkpoint whose description names them and all of them exist. Otherwise, returns
/// none.
pub fn bases(input: &Location) -> Vec<Location> {
    let Location::Path(path) = input else {
        return Vec::new();
    };
    find(path).unwrap_or_default()
}

fn find(path: &Path) -> Option<Vec<Location>> {
    let path = std::path::absolute(path).ok()?;
    let checkpoint = path
        .ancestors()
        .skip(1)
        .find(|folder| folder.join(DESCRIPTION).is_file())?;
    let store = checkpoint.parent()?;
    let mut description = Description::read(checkpoint)?;
    let stored = path.strip_prefix(checkpoint).ok()?;
    let is_it = |file: &Stored| Path::new(&file.stored) == stored;
    let mut number = description.files.iter().position(is_it)?;
    let mut bases = Vec::new();
    loop {
        let file = description.files.get(number)?;
        let Some(base) = &file.base else {
            return Some(bases);
        };
        let folder = inside(store, base)?;
        let next = Description::read(&folder)?;
        number = next.base_of(&description, file)?;
        let found = inside(&folder, &next.files.get(number)?.stored)?;
        if bases.len() == MAX_BASES || !found.is_file() {
            return None;
        }
        bases.push(Location::Path(found));
        description = next;
    }
}

/// Returns the path of `name` in `folder`, or `None` if it would leave the folder.
fn inside(folder: &Path, name: &str) -> Option<PathBuf> {
    let is_inside = Path::new(name)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    (is_inside && !name.is_empty()).then(|| folder.join(name))
}
