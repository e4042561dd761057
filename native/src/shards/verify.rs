//! Verifies a checkpoint shard by shard.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use zstn_core::catalog::FileKind;

use super::Shards;
use super::plan::Plan;
use super::shard::ShardKind as _;
use super::tree::Tree;
use super::work::{Work, fetch};
use crate::report::VerifyReport;
use crate::source::Location;
use crate::verify::verify_file;
use crate::{Error, Job, Result};

/// The maximum number of file names in a message.
const MAX_NAMED: usize = 20;

/// Verifies every shard of `input`, deltas with the first of the `bases`, and looks for
/// every tensor of the index in its file. With `original`, also compares every byte of
/// its shards and of its index and, if both are folders, every other file. If it is `fast`,
/// the digests of whole files are left out.
///
/// # Errors
/// An index that names a missing file; a base that is missing, not needed or not
/// the deltas' own; an original that differs; every error of verifying a single file.
pub(crate) fn verify_shards(
    job: &Job,
    input: &Shards,
    bases: &[Shards],
    original: Option<&Shards>,
    fast: bool,
) -> Result<VerifyReport> {
    let plan = Plan::of_unpacking(input, &job.http)?;
    plan.check_bases(input, bases)?;
    let mut originals = Vec::new();
    for unit in &plan.units {
        let found = original.map(|original| unit.counterparts(original, "original"));
        originals.push(found.transpose()?);
    }
    let mut unchecked_files = plan.copied.clone();
    let mut identical = false;
    if let Some(original) = original {
        if let Some([packed, other]) = folders(input, original) {
            unchecked_files = Folders::of(&plan, packed, other)?.compare()?;
            identical = unchecked_files.is_empty();
        } else {
            check_index(input, original)?;
        }
    }
    let work = Work::open(job, &plan, bases)?;
    let (files, indexed) = work.each(|shard| {
        let original = originals[shard.unit_number].as_ref();
        let original = original.map(|files| fetch(shard.job, &files[shard.number]));
        let original = original.transpose()?;
        let base = shard.base()?;
        let (base, original) = (base.as_deref(), original.as_ref());
        let mut file = verify_file(shard.job, shard.local, base, original, fast)?;
        file.name = shard.input();
        Ok(file)
    })?;
    Ok(VerifyReport {
        files,
        compared: original.is_some(),
        identical,
        indexed_tensors: indexed.found,
        missing_tensors: indexed.missing,
        unchecked_files,
    })
}

/// Compares the index that will be restored with the original's index, if both have
/// one.
fn check_index(input: &Shards, original: &Shards) -> Result<()> {
    let (Some(index), Some(expected)) = (input.index(), original.index()) else {
        return Ok(());
    };
    let restored = FileKind::of_packed(input)?.renamed_index(index, FileKind::Safetensors)?;
    if restored.text == expected.text {
        return Ok(());
    }
    Err(Error::Differs {
        detail: format!(
            "the index {} differs from {}",
            index.location, expected.location
        ),
    })
}

/// Returns the paths of both, if both are local folders.
fn folders<'a>(input: &'a Shards, original: &'a Shards) -> Option<[&'a Path; 2]> {
    match (input.location(), original.location()) {
        (Location::Path(packed), Location::Path(other))
            if input.is_folder() && original.is_folder() =>
        {
            Some([packed, other])
        }
        _ => None,
    }
}

/// The contents of a packed folder and of its original, apart from the weights.
struct Folders<'a> {
    plan: &'a Plan<'a>,
    packed: &'a Path,
    original: &'a Path,
    /// Every entry that the restored folder will have.
    restored: BTreeSet<PathBuf>,
    /// Every entry of the original.
    expected: BTreeSet<PathBuf>,
    unchecked: BTreeSet<PathBuf>,
}

impl<'a> Folders<'a> {
    fn of(plan: &'a Plan, packed: &'a Path, original: &'a Path) -> Result<Self> {
        let mut restored: BTreeSet<PathBuf> = plan.folders.iter().cloned().collect();
        restored.extend(plan.copied.iter().cloned());
        restored.extend(plan.units.iter().flat_map(|unit| unit.outputs()));
        let none = Shards::of_tree(Location::Path(original.into()));
        let tree = Tree::walk(original, &[], &none)?;
        let unchecked = plan.left_out.iter().chain(&tree.left_out).cloned();
        Ok(Self {
            plan,
            packed,
            original,
            restored,
            unchecked: unchecked.collect(),
            expected: tree.files.into_iter().chain(tree.folders).collect(),
        })
    }

    /// Compares all copied files, and the names of all entries. Returns the entries
    /// that cannot be compared.
    fn compare(self) -> Result<Vec<PathBuf>> {
        let missing = self.expected.difference(&self.restored);
        let mut problems: Vec<String> = missing.map(|path| named(path, "is missing")).collect();
        let extra = self.restored.difference(&self.expected);
        problems.extend(extra.map(|path| named(path, "is not in the original")));
        for path in self
            .plan
            .copied
            .iter()
            .filter(|path| self.expected.contains(*path))
        {
            if !is_same(&self.packed.join(path), &self.original.join(path))? {
                problems.push(named(path, "differs"));
            }
        }
        for unit in &self.plan.units {
            let Some(index) = &unit.index else { continue };
            let path = unit.folder.join(&index.name);
            if self.expected.contains(&path) {
                let original = self.original.join(&path);
                let text = fs::read(&original).map_err(Error::file("read", &original))?;
                if text != index.text {
                    problems.push(named(&path, "differs"));
                }
            }
        }
        if problems.is_empty() {
            return Ok(self.unchecked.into_iter().collect());
        }
        let count = problems.len();
        let more = match count > MAX_NAMED {
            true => format!(", and {} more", count - MAX_NAMED),
            false => String::new(),
        };
        problems.truncate(MAX_NAMED);
        Err(Error::Differs {
            detail: format!(
                "{} differs from {}: {}{more}",
                self.packed.display(),
                self.original.display(),
                problems.join(", "),
            ),
        })
    }
}

fn named(path: &Path, problem: &str) -> String {
    format!("{} {problem}", path.display())
}

/// Returns whether two files have the same bytes.
fn is_same(one: &Path, other: &Path) -> Result<bool> {
    let open = |path: &Path| File::open(path).map_err(Error::file("open", path));
    let mut files = [open(one)?, open(other)?];
    let mut pieces = [vec![0; 1 << 18], vec![0; 1 << 18]];
    loop {
        let mut lens = [0; 2];
        for (number, path) in [one, other].into_iter().enumerate() {
            lens[number] =
                fill(&mut files[number], &mut pieces[number]).map_err(Error::file("read", path))?;
        }
        if pieces[0][..lens[0]] != pieces[1][..lens[1]] {
            return Ok(false);
        }
        if lens[0] == 0 {
            return Ok(true);
        }
    }
}

/// Reads until `out` is full or the file ends, and returns the number of bytes read.
fn fill(file: &mut File, out: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < out.len() {
        match file.read(&mut out[filled..]) {
            Ok(0) => break,
            Ok(len) => filled += len,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
