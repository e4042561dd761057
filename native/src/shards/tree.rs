//! The entries in a checkpoint's folder and its subfolders, which the result reproduces
//! (docs/formats/sharded.md 3).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use zstn_core::Rule;
use zstn_core::catalog::{FileKind, IndexName, has_other_extension, kind_of_name};

use super::shard::ShardKind as _;
use super::{PLAIN, Shards};
use crate::pack::check_packable;
use crate::source::{FileSource, HttpOptions, Location};
use crate::{Error, Result, original_file};

/// The history of a repository, which may contain another copy of every file. It is
/// left out, and the report lists it.
const HISTORY: &str = ".git";

/// A folder with all entries in and below it, except the files of the checkpoint at its
/// top. All paths are relative to the folder.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Checkpoints in subfolders, with the path of their folder, sorted by path. A
    /// folder may contain several. Model files of other formats are checkpoints of one
    /// file, also at the top.
    pub(super) checkpoints: Vec<(PathBuf, Shards)>,
    /// Files that belong to no checkpoint.
    pub(super) files: Vec<PathBuf>,
    /// The files among them that are named like a checkpoint or an index but cannot be
    /// packed, with the reason.
    pub(super) not_packed: Vec<(PathBuf, String)>,
    /// Subfolders, each after its parent.
    pub(super) folders: Vec<PathBuf>,
    /// Entries that are neither files nor folders, links to folders, and a repository's
    /// history.
    pub(super) left_out: Vec<PathBuf>,
}

impl Tree {
    /// Collects the entries of `root`. Files with an extension of `kinds` are
    /// checkpoints; an index groups several files into one. Files at the top are only
    /// checkpoints if `own`, the checkpoint of the folder itself, has no files. If
    /// `kinds` is [`PLAIN`], model files of other formats are checkpoints as well, and
    /// files that cannot be packed are listed with the other files.
    pub(super) fn walk(root: &Path, kinds: &[FileKind], own: &Shards) -> Result<Self> {
        let mut own_names: BTreeSet<&str> = own.files().iter().map(|f| f.name.as_str()).collect();
        own_names.extend(own.index().map(|index| index.name.as_str()));
        let mut tree = Self::default();
        let mut pending = vec![PathBuf::new()];
        while let Some(folder) = pending.pop() {
            let is_top = folder.as_os_str().is_empty();
            let before = pending.len();
            let mut files = tree.list(root, &folder, &mut pending)?;
            if kinds == PLAIN {
                check_no_cache(root, &folder, &pending[before..])?;
            }
            if is_top && !own_names.is_empty() {
                files.retain(|name| name.to_str().is_none_or(|name| !own_names.contains(name)));
                if kinds == PLAIN {
                    tree.explain_indices(root, &files, &own_names)?;
                }
                tree.take_originals(root, &folder, &mut files, kinds)?;
            } else {
                tree.take_checkpoints(&root.join(&folder), &folder, &mut files, kinds)?;
            }
            tree.files
                .extend(files.into_iter().map(|name| folder.join(name)));
        }
        tree.files.sort();
        tree.folders.sort();
        tree.left_out.sort();
        tree.not_packed.sort();
        tree.checkpoints.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(tree)
    }

    /// Lists one folder: returns the names of its files, and adds its subfolders to
    /// `pending`.
    fn list(
        &mut self,
        root: &Path,
        folder: &Path,
        pending: &mut Vec<PathBuf>,
    ) -> Result<Vec<OsString>> {
        let full = root.join(folder);
        let unreadable = || Error::file("list", &full);
        let mut files = Vec::new();
        for entry in fs::read_dir(&full).map_err(unreadable())? {
            let entry = entry.map_err(unreadable())?;
            let path = folder.join(entry.file_name());
            let kind = entry.file_type().map_err(unreadable())?;
            // Model caches consist of links to files, so this checks the file that a
            // link leads to. A link to a folder may form a cycle.
            let leads_to_file = || entry.path().is_file();
            if kind.is_file() || (kind.is_symlink() && leads_to_file()) {
                files.push(entry.file_name());
            } else if kind.is_dir() && entry.file_name() != HISTORY {
                self.folders.push(path.clone());
                pending.push(path);
            } else {
                // A pipe, a socket or a device with the name of a checkpoint is a
                // mistake.
                if kind_of_name(&entry.file_name().to_string_lossy()).is_some() {
                    refuse_special(&entry.path())?;
                }
                self.left_out.push(path);
            }
        }
        files.sort();
        Ok(files)
    }

    /// Records why the indices at the top, except the index of the folder's own
    /// checkpoint, are copied instead of packed.
    fn explain_indices(
        &mut self,
        root: &Path,
        files: &[OsString],
        own_names: &BTreeSet<&str>,
    ) -> Result<()> {
        let taken = own_names.iter().map(|name| (*name).into()).collect();
        for name in files {
            let index = name.to_str().and_then(IndexName::parse);
            if index.is_none_or(|index| index.kind() != FileKind::Safetensors) {
                continue;
            }
            match open_index(root, name, PLAIN, &taken) {
                Ok(_) => {}
                Err(error) if is_refusal(&error) => {
                    self.not_packed.push((name.into(), error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Moves the files of checkpoints from `files` to [`Tree::checkpoints`].
    fn take_checkpoints(
        &mut self,
        full: &Path,
        folder: &Path,
        files: &mut Vec<OsString>,
        kinds: &[FileKind],
    ) -> Result<()> {
        let mut taken: BTreeSet<OsString> = BTreeSet::new();
        let is_index = |name: &OsString| {
            let index = name.to_str().and_then(IndexName::parse);
            index.is_some_and(|index| kinds.contains(&index.kind()))
        };
        for name in files.iter().filter(|name| is_index(name)) {
            let shards = match open_index(full, name, kinds, &taken) {
                Ok(shards) => shards,
                Err(error) if kinds.contains(&FileKind::Safetensors) && is_refusal(&error) => {
                    let reason = (folder.join(name), error.to_string());
                    self.not_packed.push(reason);
                    continue;
                }
                Err(error) => return Err(error),
            };
            taken.extend(shards.files().iter().map(|file| file.name.as_str().into()));
            taken.insert(name.clone());
            self.checkpoints.push((folder.to_path_buf(), shards));
        }
        let is_file = |name: &OsString| {
            let name = name.to_str().unwrap_or_default();
            kinds.iter().any(|kind| kind.is_of(name))
        };
        for name in files.iter().filter(|name| is_file(name)) {
            if taken.contains(name) {
                continue;
            }
            if kinds == PLAIN
                && let Some(reason) = why_not_packed(&full.join(name))?
            {
                self.not_packed.push((folder.join(name), reason));
                continue;
            }
            taken.insert(name.clone());
            let shards = Shards::of_file(Location::Path(full.join(name)));
            self.checkpoints.push((folder.to_path_buf(), shards));
        }
        files.retain(|name| !taken.contains(name));
        self.take_originals(full, folder, files, kinds)
    }

    /// Moves model files of other formats from `files` to [`Tree::checkpoints`], or if
    /// packed files are collected, the packed files that restore them.
    fn take_originals(
        &mut self,
        full: &Path,
        folder: &Path,
        files: &mut Vec<OsString>,
        kinds: &[FileKind],
    ) -> Result<()> {
        let mut others = Vec::new();
        for name in files.drain(..) {
            let path = full.join(&name);
            let is_named = has_other_extension(name.to_str().unwrap_or_default());
            let is_original = match kinds == PLAIN {
                true => is_named && original_file::is_recognised(&path),
                false => kinds.contains(&FileKind::Zstn) && is_packed_original(&path),
            };
            if is_original {
                let shards = Shards::of_file(Location::Path(path));
                self.checkpoints.push((folder.to_path_buf(), shards));
                continue;
            }
            if kinds == PLAIN && is_named && !original_file::is_of_another_format(&path) {
                let reason = why_not_packed(&path)?.unwrap_or_else(|| {
                    "its content is a safetensors file; give it the extension .safetensors".into()
                });
                self.not_packed.push((folder.join(&name), reason));
            }
            others.push(name);
        }
        *files = others;
        Ok(())
    }
}

/// Returns whether the file at `path` is called `NAME.zstn`, and restores a file that is
/// not safetensors.
pub(super) fn is_packed_original(path: &Path) -> bool {
    let is_named = path.to_str().is_some_and(|name| FileKind::Zstn.is_of(name));
    is_named && original_file::is_in(path)
}

/// Opens the index called `name` in the folder `full`. Its shards must not be `taken`
/// by another index. For packing, all its shards must exist in the same folder and be
/// packable, and the index must be restorable.
pub(super) fn open_index(
    full: &Path,
    name: &OsString,
    kinds: &[FileKind],
    taken: &BTreeSet<OsString>,
) -> Result<Shards> {
    let text = name.to_string_lossy().into_owned();
    let location = Location::Path(full.join(name));
    let shards = Shards::of_index(&location, text, &HttpOptions::default())?;
    if kinds == PLAIN {
        let missing = |name: &&str| !full.join(name).is_file();
        let mut names = shards.files().iter().map(|file| file.name.as_str());
        if let Some(name) = names.find(missing) {
            let detail = format!("the index names {name}, which is not there");
            let refusal = zstn_core::Error::malformed(Rule::ShardMissing, detail);
            return Err(Error::place(&location)(refusal));
        }
        for file in shards.files() {
            check_packable(&FileSource::open(&full.join(&file.name))?)?;
        }
        if let Some(index) = shards.index() {
            FileKind::Safetensors.renamed_index(index, FileKind::Zstn)?;
        }
    }
    let mut files = shards.files().iter();
    if files.any(|file| taken.contains::<OsString>(&file.name.as_str().into())) {
        return Err(Error::Usage(format!(
            "{location}: another index names the same file; move one of them elsewhere"
        )));
    }
    Ok(shards)
}

/// Returns the reason why the file at `path` cannot be packed, or `None` if it can.
pub(super) fn why_not_packed(path: &Path) -> Result<Option<String>> {
    match check_packable(&FileSource::open(path)?) {
        Ok(()) => Ok(None),
        Err(error) if is_refusal(&error) => Ok(Some(error.to_string())),
        Err(error) => Err(error),
    }
}

/// Refuses an entry that exists but is neither a file nor a folder.
fn refuse_special(path: &Path) -> Result<()> {
    match path.metadata() {
        Ok(metadata) if !metadata.is_dir() => FileSource::open(path).map(drop),
        _ => Ok(()),
    }
}

/// Returns whether an error is caused by the contents of a file rather than by reading
/// it.
pub(super) fn is_refusal(error: &Error) -> bool {
    matches!(
        error,
        Error::Format { .. } | Error::Core(_) | Error::Usage(_)
    )
}

/// Refuses the cache of a repository. Every file of a revision there is a link to a
/// file in `blobs`, so a copy would contain every file twice.
fn check_no_cache(root: &Path, folder: &Path, subfolders: &[PathBuf]) -> Result<()> {
    let has = |name: &str| subfolders.iter().any(|path| path.ends_with(name));
    if !(has("blobs") && has("snapshots")) {
        return Ok(());
    }
    let cache = root.join(folder);
    let snapshots = cache.join("snapshots");
    let mut revisions = fs::read_dir(&snapshots).into_iter().flatten().flatten();
    let revision = revisions.next().map(|entry| entry.path());
    Err(Error::Usage(format!(
        "{} is the cache of a repository, in which the files of a revision are links; pack a \
         revision, such as {}",
        cache.display(),
        revision.unwrap_or(snapshots).display()
    )))
}
