//! Small models of every format, a separate folder for each run of the table, and
//! snapshots of the contents of a folder.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::json;
use tempfile::TempDir;
use zstn_tests::checkpoint;
use zstn_tests::command::{text, zstn};
use zstn_tests::rng::Rng;

use crate::process::{Ended, Launch, launch};
use crate::verb_table::Verb;

/// Length of a tensor in bytes, so that a run takes long enough to be interrupted.
const TENSOR_BYTES: usize = 100_000;

/// The models that the verbs read. Each is created once.
pub struct Models {
    folder: TempDir,
    clean: std::sync::Mutex<BTreeMap<String, &'static Clean>>,
}

/// The result of a verb without a fault.
pub struct Clean {
    /// The files and folders that the verb created.
    pub made: Snapshot,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Duration of the run.
    pub seconds: f64,
}

impl Models {
    /// Returns the shared models and creates them on the first call.
    pub fn get() -> &'static Self {
        static MODELS: OnceLock<Models> = OnceLock::new();
        MODELS.get_or_init(Self::make)
    }

    fn make() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let weights = Rng(9).bf16_weights(2 * TENSOR_BYTES);
        let (a, b) = weights.split_at(TENSOR_BYTES);
        let plain = checkpoint(&[("a", "BF16", a), ("b", "BF16", b)]);
        let mut tuned = plain.clone();
        let len = tuned.len();
        tuned[len - 1000] ^= 1;
        fs::write(at("m.safetensors"), plain).expect("written");
        fs::write(at("tuned.safetensors"), tuned).expect("written");
        fs::create_dir(at("model")).expect("made");
        let mut map = serde_json::Map::new();
        for (number, (name, bytes)) in [("a", a), ("b", b)].into_iter().enumerate() {
            let shard = format!("model-0000{}-of-00002.safetensors", number + 1);
            let file = checkpoint(&[(name, "BF16", bytes)]);
            fs::write(at("model").join(&shard), file).expect("written");
            map.insert(name.into(), shard.into());
        }
        let index = json!({ "metadata": {"total_size": 2 * TENSOR_BYTES}, "weight_map": map });
        fs::write(
            at("model/model.safetensors.index.json"),
            format!("{index}\n"),
        )
        .expect("written");
        for arguments in [
            &["pack", "m.safetensors"][..],
            &["pack", "tuned.safetensors", "--base", "m.safetensors"],
            &["pack", "model"],
            &["compress", "m.safetensors"],
        ] {
            let out = zstn(folder.path(), arguments);
            assert!(out.status.success(), "{}", text(&out.stderr));
        }
        Self {
            folder,
            clean: Default::default(),
        }
    }

    /// Returns the result of a verb without a fault, and caches it.
    pub fn clean(&self, verb: &Verb) -> &'static Clean {
        let mut known = self.clean.lock().expect("no panic");
        if let Some(clean) = known.get(&verb.name) {
            return clean;
        }
        let cell = Cell::of(verb);
        let before = snapshot(&cell.work());
        let ended = cell.run(verb, &Launch::default());
        assert_eq!(ended.status, 0, "{}: {}", verb.name, ended.stderr);
        let mut made = snapshot(&cell.work());
        made.retain(|path, _| !before.contains_key(path));
        assert_eq!(made.is_empty(), verb.output.is_none(), "{}", verb.name);
        let clean = Box::leak(Box::new(Clean {
            made,
            stdout: ended.stdout,
            seconds: ended.seconds,
        }));
        known.insert(verb.name.clone(), clean);
        clean
    }
}

/// The folder of one run, with the subfolders `work` and `tmp`, the latter for
/// temporary files.
pub struct Cell {
    folder: TempDir,
}

impl Cell {
    /// Creates a folder that contains the models that a verb reads.
    pub fn of(verb: &Verb) -> Self {
        let words = verb.arguments.iter().chain(&verb.stdin).chain(&verb.input);
        let names = words.filter(|word| Some(*word) != verb.output.as_ref());
        Self::with(names.map(|name| &**name))
    }

    /// Creates a folder that contains the models with these names; unknown names are
    /// ignored.
    pub fn with<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let folder = tempfile::Builder::new().prefix("cell-").tempdir();
        let cell = Self {
            folder: folder.expect("a folder"),
        };
        open_to_all(cell.folder.path());
        for folder in [cell.work(), cell.tmp()] {
            fs::create_dir(&folder).expect("made");
            open_to_all(&folder);
        }
        for name in names {
            let from = Models::get().folder.path().join(name);
            if from.exists() && !name.is_empty() {
                copy(&from, &cell.work().join(name));
            }
        }
        cell
    }

    /// Returns the working directory of the run.
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Returns the folder for temporary files.
    pub fn tmp(&self) -> PathBuf {
        self.folder.path().join("tmp")
    }

    /// Returns a path outside of `work` and `tmp` for files of the test itself.
    pub fn own(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a verb with its normal arguments.
    pub fn run(&self, verb: &Verb, options: &Launch) -> Ended {
        let arguments: Vec<_> = verb.arguments.iter().map(Into::into).collect();
        launch(self, &arguments, verb.stdin.as_deref(), options).end()
    }
}

fn open_to_all(folder: &Path) {
    let all = fs::Permissions::from_mode(0o777);
    fs::set_permissions(folder, all).expect("permissions");
}

fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).expect("made");
        }
        fs::copy(from, to).expect("copied");
        return;
    }
    fs::create_dir_all(to).expect("made");
    open_to_all(to);
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}

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
pub fn snapshot(folder: &Path) -> Snapshot {
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
