//! Selection of the files to pack in a revision.

use std::collections::{HashMap, HashSet};

use super::stale::Restores;
use crate::hub::ListedFile;
use zstn_serve::path::{packed_name, unpacked_name};

const ATTRIBUTES: &str = ".gitattributes";

/// The files of a revision that need work.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RevisionPlan {
    /// Files to pack.
    pub(super) files: Vec<ListedFile>,
    /// Indices of shards whose packed counterpart is missing or outdated.
    pub(super) indices: Vec<String>,
}

/// Returns the path of the packed counterpart of a file or an index.
pub(super) fn packed_path(path: &str) -> Option<String> {
    match path.rsplit_once('/') {
        Some((folder, name)) => Some(format!("{folder}/{}", packed_name(name)?)),
        None => packed_name(path),
    }
}

/// Selects the files to pack in a revision. An outdated packed counterpart is replaced.
/// `restores` states which counterparts are up to date. For others, `before`, the files
/// of the previous revision, is used: a counterpart is outdated if its file has changed
/// since then and the counterpart has not.
pub(super) fn plan(
    files: &[ListedFile],
    before: &[ListedFile],
    restores: &Restores,
) -> RevisionPlan {
    let now = by_path(files);
    let before = by_path(before);
    let mut plan = RevisionPlan::default();
    for file in files {
        let Some(packed) = packed_path(&file.path) else {
            continue;
        };
        let is_stale = || {
            let changed = |path: &str| match (now.get(path), before.get(path)) {
                (Some(now), Some(before)) => now.oid != before.oid || now.sha256 != before.sha256,
                _ => false,
            };
            match restores.get(&file.path) {
                Some(restores) => !restores,
                None => before.contains_key(&*packed) && changed(&file.path) && !changed(&packed),
            }
        };
        if now.contains_key(&*packed) && !is_stale() {
            continue;
        }
        match file.path.ends_with(".safetensors") {
            true => plan.files.push(file.clone()),
            false => plan.indices.push(file.path.clone()),
        }
    }
    plan
}

/// Returns whether two revisions differ only by files that a worker adds.
pub(super) fn is_packing(files: &[ListedFile], before: &[ListedFile]) -> bool {
    let (now, then) = (by_path(files), by_path(before));
    let paths: HashSet<&str> = now.keys().chain(then.keys()).copied().collect();
    let mut has_packed = false;
    for path in paths {
        let (now, then) = (now.get(path), then.get(path));
        if now.map(|file| &file.oid) == then.map(|file| &file.oid)
            && now.map(|file| &file.sha256) == then.map(|file| &file.sha256)
        {
            continue;
        }
        let is_packed = unpacked_name(path).is_some();
        if now.is_none() || !(is_packed || path == ATTRIBUTES) {
            return false;
        }
        has_packed |= is_packed;
    }
    has_packed
}

fn by_path(files: &[ListedFile]) -> HashMap<&str, &ListedFile> {
    files.iter().map(|file| (&*file.path, file)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str)]) -> Vec<ListedFile> {
        let file = |&(path, oid): &(&str, &str)| ListedFile::for_tests(path, oid);
        list.iter().map(file).collect()
    }

    #[test]
    fn what_has_no_current_counterpart_is_packed() {
        let before = files(&[
            ("a.safetensors", "1"),
            ("a.zstn", "2"),
            ("b.safetensors", "1"),
            ("b.zstn", "2"),
        ]);
        let now = files(&[
            ("a.safetensors", "9"),
            ("a.zstn", "2"),
            ("b.safetensors", "1"),
            ("b.zstn", "2"),
            ("d/c.safetensors", "1"),
            ("d/c.safetensors.index.json", "1"),
            ("config.json", "1"),
            ("e.zstn", "1"),
        ]);
        let planned = plan(&now, &before, &Restores::new());
        let paths: Vec<_> = planned.files.iter().map(|file| &*file.path).collect();
        assert_eq!(paths, ["a.safetensors", "d/c.safetensors"]);
        assert_eq!(planned.indices, ["d/c.safetensors.index.json"]);
        // Without the previous revision, an existing counterpart counts as up to date.
        assert_eq!(plan(&now, &[], &Restores::new()).files.len(), 1);
        // The digest of the restored file takes precedence over the previous revision.
        let restores = ["a.safetensors", "b.safetensors"].map(str::to_owned);
        let restores = restores.into_iter().zip([true, false]).collect();
        let planned = plan(&now, &before, &restores);
        let paths: Vec<_> = planned.files.iter().map(|file| &*file.path).collect();
        assert_eq!(paths, ["b.safetensors", "d/c.safetensors"]);
    }

    #[test]
    fn commits_of_workers_are_recognised() {
        let before = files(&[("a.safetensors", "1"), ("b", "1")]);
        let with = |more: &[(&str, &str)]| {
            let mut all = vec![("a.safetensors", "1"), ("b", "1")];
            all.extend(more);
            files(&all)
        };
        assert!(is_packing(
            &with(&[("a.zstn", "1"), (ATTRIBUTES, "1")]),
            &before
        ));
        assert!(!is_packing(&with(&[("a.zstn", "1"), ("c", "1")]), &before));
        assert!(!is_packing(&with(&[(ATTRIBUTES, "1")]), &before));
        assert!(!is_packing(&before, &before));
        assert!(!is_packing(&files(&[("b", "1"), ("a.zstn", "1")]), &before));
    }
}
