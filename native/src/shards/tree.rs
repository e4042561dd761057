//! What lies in and below a checkpoint's folder, so that the result is the
//! same tree (docs/formats/sharded.md 3).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use zstn_core::catalog::Kind;
use zstn_core::container::safetensors::SHARD_INDEX_SUFFIX;

use super::Shards;
use crate::source::{HttpOptions, Location};
use crate::{Error, Result};

/// The history of a repository, which may hold every file once more. It is
/// left out, and the report says so.
const HISTORY: &str = ".git";

/// A folder and all that is below it, but for the checkpoint that the folder
/// itself stands for. All paths are relative to it.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Checkpoints in subfolders, with the path of the folder each is in; a
    /// folder may hold several. In the order of paths.
    pub(super) checkpoints: Vec<(PathBuf, Shards)>,
    /// Files that belong to none of them.
    pub(super) files: Vec<PathBuf>,
    /// Subfolders, each after the one it is in.
    pub(super) folders: Vec<PathBuf>,
    /// What is neither a file nor a folder, links to folders, and the history
    /// of a repository.
    pub(super) left_out: Vec<PathBuf>,
}

impl Tree {
    /// Looks through `root`. Files whose extension is one of `kinds` are
    /// checkpoints, several together where an index says so; those at the top
    /// only if `own`, the checkpoint that the folder stands for, is none.
    pub(super) fn walk(root: &Path, kinds: &[Kind], own: &Shards) -> Result<Self> {
        let mut own_names: BTreeSet<&str> = own.files().iter().map(|f| f.name.as_str()).collect();
        own_names.extend(own.index().map(|index| index.name.as_str()));
        let mut tree = Self::default();
        let mut pending = vec![PathBuf::new()];
        while let Some(folder) = pending.pop() {
            let is_top = folder.as_os_str().is_empty();
            let mut files = tree.list(root, &folder, &mut pending)?;
            if is_top && !own_names.is_empty() {
                files.retain(|name| name.to_str().is_none_or(|name| !own_names.contains(name)));
            } else {
                tree.take_checkpoints(&root.join(&folder), &folder, &mut files, kinds)?;
            }
            tree.files
                .extend(files.into_iter().map(|name| folder.join(name)));
        }
        tree.files.sort();
        tree.folders.sort();
        tree.left_out.sort();
        tree.checkpoints.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(tree)
    }

    /// Sorts out what is in one folder: returns the names of its files, and
    /// adds its subfolders to `pending`.
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
            // Model caches are made of links to files: what counts is where
            // they lead. A link to a folder may lead round in a circle.
            let leads_to_file = || entry.path().is_file();
            if kind.is_file() || (kind.is_symlink() && leads_to_file()) {
                files.push(entry.file_name());
            } else if kind.is_dir() && entry.file_name() != HISTORY {
                self.folders.push(path.clone());
                pending.push(path);
            } else {
                self.left_out.push(path);
            }
        }
        files.sort();
        Ok(files)
    }

    /// Takes the files of checkpoints out of `files`.
    fn take_checkpoints(
        &mut self,
        full: &Path,
        folder: &Path,
        files: &mut Vec<OsString>,
        kinds: &[Kind],
    ) -> Result<()> {
        let ends = |name: &OsString, suffix: &str| {
            let name = name.to_str();
            name.is_some_and(|name| {
                let mut kinds = kinds.iter();
                kinds.any(|kind| name.ends_with(&format!(".{}{suffix}", kind.extension())))
            })
        };
        let mut taken: BTreeSet<OsString> = BTreeSet::new();
        let indices = files.iter().filter(|name| ends(name, SHARD_INDEX_SUFFIX));
        for name in indices {
            let text = name.to_string_lossy().into_owned();
            let index = Location::Path(full.join(name));
            let shards = Shards::of_index(&index, text, &HttpOptions::default())?;
            let parts = shards.files().iter().map(|file| file.name.as_str().into());
            if parts.clone().any(|part| taken.contains(&part)) {
                return Err(Error::Usage(format!(
                    "{}: two indices name the same file; move one of them elsewhere",
                    full.display()
                )));
            }
            taken.extend(parts);
            taken.insert(name.clone());
            self.checkpoints.push((folder.to_path_buf(), shards));
        }
        for name in files.iter().filter(|name| ends(name, "")) {
            if taken.insert(name.clone()) {
                let shards = Shards::of_file(Location::Path(full.join(name)));
                self.checkpoints.push((folder.to_path_buf(), shards));
            }
        }
        files.retain(|name| !taken.contains(name));
        Ok(())
    }
}
