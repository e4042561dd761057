//! Selects the files of a revision to pack: those without a packed counterpart, and those
//! whose counterpart restores another file.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use zstn_core::ErrorKind;
use zstn_core::container::zstn::{MAGIC, has_virtual_header};

use super::commit_additions::Revision;
use super::runner::Runner;
use crate::hub::ListedFile;
use crate::manifest::{Results, key};
use crate::proof::{StoredFile, restored_sha256};
use crate::work::Failure;
use zstn::{Error, Location, Result};
use zstn_core::catalog::{IndexName, has_other_extension};
use zstn_serve::path::{packed_path, restored_path};

const ATTRIBUTES: &str = ".gitattributes";

/// The files of a revision that need work.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Selection {
    /// Files to pack.
    pub(super) files: Vec<ListedFile>,
    /// Indices of shards whose packed counterpart is missing or outdated.
    pub(super) indices: Vec<String>,
}

/// Selects the files to pack in a revision. An outdated packed counterpart is replaced.
/// `restores` states which counterparts are up to date. For others, `before`, the files
/// of the previous revision, is used: a counterpart is outdated if its file has changed
/// since then and the counterpart has not.
pub(super) fn select(
    files: &[ListedFile],
    before: &[ListedFile],
    restores: &Restores,
) -> Selection {
    let now = by_path(files);
    let before = by_path(before);
    let mut selection = Selection::default();
    for file in files {
        // `model.gguf` and `model.gguf.safetensors` have the same packed name.
        let is_hidden = has_other_extension(&file.path)
            && now.contains_key(&*format!("{}.safetensors", file.path));
        let Some(packed) = packed_path(&file.path).filter(|_| !is_hidden) else {
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
        match IndexName::parse(&file.path) {
            None => selection.files.push(file.clone()),
            Some(_) => selection.indices.push(file.path.clone()),
        }
    }
    selection
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
        let is_packed = restored_path(path).is_some();
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

/// The folder for the digests of restored files. Entries are named by the SHA-256 of
/// the packed file.
const FOLDER: &str = "restored";
/// Maximum length of an entry, in bytes.
const MAX_ENTRY_BYTES: u64 = 64 << 10;

/// The digest of the file that a packed one restores, computed by decoding it
/// completely.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Restored {
    /// SHA-256 of the packed file, in lower-case hex.
    packed_sha256: String,
    /// SHA-256 of the restored file, or `None` if the packed file is damaged.
    sha256: Option<String>,
}

impl Restored {
    /// Returns the name of a packed file's entry, if the hub lists its SHA-256.
    fn name(packed: &ListedFile) -> Option<String> {
        let sha256 = packed.sha256.as_ref()?;
        Some(format!("{sha256}.json"))
    }

    /// Reads the entry of a packed file, if it exists.
    fn read(results: &Results, packed: &ListedFile) -> Result<Option<Self>> {
        let Some(name) = Self::name(packed) else {
            return Ok(None);
        };
        let entry = results.read_file(FOLDER, &name, MAX_ENTRY_BYTES)?;
        let known = entry.and_then(|entry| serde_json::from_slice::<Self>(&entry).ok());
        Ok(known.filter(|known| Some(&known.packed_sha256) == packed.sha256.as_ref()))
    }
}

/// Maps the path of each file with a packed counterpart to true if the counterpart
/// restores it. A file is absent if that is unknown.
pub(super) type Restores = HashMap<String, bool>;

impl Runner {
    /// Checks whether the packed counterpart of each file restores the SHA-256 that the
    /// hub lists for the file. A counterpart packed by a worker of this queue is not
    /// read. Any other is decoded once, because the digest that it contains is only a
    /// claim. Errors of single files are added to `failures`.
    pub(super) fn restores(
        &self,
        revision: &Revision<'_>,
        files: &[ListedFile],
        failures: &mut Vec<Error>,
    ) -> Result<Restores, Failure> {
        let by_path: HashMap<&str, &ListedFile> =
            files.iter().map(|file| (&*file.path, file)).collect();
        let mut restores = Restores::new();
        for file in files.iter().filter(|file| revision.has_chosen(file)) {
            let packed = packed_path(&file.path).and_then(|path| by_path.get(&*path).copied());
            let (Some(packed), Some(sha256)) = (packed, &file.sha256) else {
                continue;
            };
            if IndexName::parse(&file.path).is_some() {
                continue;
            }
            if self.stop.is_requested() {
                return Err(Failure::Stopped);
            }
            let is_known = self.has_proof(revision.results, (&file.path, sha256), packed);
            if is_known.map_err(Failure::Error)? {
                restores.insert(file.path.clone(), true);
                continue;
            }
            match self.restored(revision, packed).map_err(Failure::from) {
                Ok(Some(restored)) => {
                    let is_same = restored.sha256.as_ref() == Some(sha256);
                    restores.insert(file.path.clone(), is_same);
                }
                // The counterpart is not a packed file, or of a version that this one
                // cannot read.
                Ok(None) | Err(Failure::File(_)) => {}
                Err(Failure::Error(error)) => failures.push(error),
                Err(Failure::Stopped) => return Err(Failure::Stopped),
            }
        }
        Ok(restores)
    }

    /// Returns whether workers of this queue have already verified that a packed file
    /// restores the file with this path and SHA-256. Nothing is read from the hub.
    pub(super) fn has_proof(
        &self,
        results: &Results,
        (path, sha256): (&str, &str),
        packed: &ListedFile,
    ) -> Result<bool> {
        let done = results.done(&key((path, sha256), self.packer.options.encode()))?;
        if done.is_some_and(|done| Some(done.packed_sha256) == packed.sha256) {
            return Ok(true);
        }
        let known = Restored::read(results, packed)?;
        Ok(known.is_some_and(|known| known.sha256.as_deref() == Some(sha256)))
    }

    /// Returns whether `packed` restores a file of another format than the name of `file`
    /// states: `foo.ckpt.zstn` can belong to `foo.ckpt` or to `foo.ckpt.safetensors`. It
    /// may be the only copy of that file. Only its first bytes are read.
    pub(super) fn is_of_another_name(
        &self,
        revision: &Revision<'_>,
        file: &ListedFile,
        packed: &str,
    ) -> Result<bool> {
        /// Bytes up to the end of the layout flag.
        const FLAG_END_BYTES: u64 = 6;
        let url = revision.repository.file_url(revision.head, packed);
        let source = Location::url(url).open(&self.hub.http()?)?;
        let head = source.read(0..source.len_bytes().min(FLAG_END_BYTES))?;
        let is_other = has_virtual_header(&head) != has_other_extension(&file.path);
        Ok(head.starts_with(&MAGIC) && is_other)
    }

    /// Returns the digest of the file that a packed one restores, or `None` if `packed`
    /// is not a packed file.
    fn restored(&self, revision: &Revision<'_>, packed: &ListedFile) -> Result<Option<Restored>> {
        let results = revision.results;
        if let Some(known) = Restored::read(results, packed)? {
            return Ok(Some(known));
        }
        let http = self.hub.http()?;
        let url = revision.repository.file_url(revision.head, &packed.path);
        let location = Location::url(url);
        let source = location.open(&http)?;
        let head = source.read(0..source.len_bytes().min(MAGIC.len() as u64))?;
        if *head != MAGIC {
            return Ok(None);
        }
        let mut stored = StoredFile::new(location).http(http);
        if let Some(sha256) = &packed.sha256 {
            stored = stored.sha256(sha256);
        }
        if let Some(bytes) = self.packer.options.memory_bytes {
            stored = stored.memory_bytes(bytes);
        }
        let sha256 = match restored_sha256(&self.packer.engine, &stored, &()) {
            Ok(sha256) => Some(sha256),
            Err(Error::Format { source, .. } | Error::Core(source))
                if source.kind() == ErrorKind::Malformed =>
            {
                None
            }
            Err(error) => return Err(error),
        };
        let restored = Restored {
            packed_sha256: packed.sha256.clone().unwrap_or_default(),
            sha256,
        };
        if let Some(name) = Restored::name(packed) {
            let entry = serde_json::to_vec(&restored)
                .map_err(|error| Error::io("write an entry", std::io::Error::other(error)))?;
            results.create_file(FOLDER, &name, &entry)?;
        }
        Ok(Some(restored))
    }
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
        let selected = select(&now, &before, &Restores::new());
        let paths: Vec<_> = selected.files.iter().map(|file| &*file.path).collect();
        assert_eq!(paths, ["a.safetensors", "d/c.safetensors"]);
        assert_eq!(selected.indices, ["d/c.safetensors.index.json"]);
        // Without the previous revision, an existing counterpart counts as up to date.
        assert_eq!(select(&now, &[], &Restores::new()).files.len(), 1);
        let others = files(&[
            ("a.gguf", "1"),
            ("a.gguf.zstn", "2"),
            ("b.pt", "1"),
            ("b.pt.safetensors", "1"),
            ("c.onnx", "1"),
            ("pytorch_model.bin.index.json", "1"),
        ]);
        let selected = select(&others, &[], &Restores::new());
        let paths: Vec<_> = selected.files.iter().map(|file| &*file.path).collect();
        assert_eq!(paths, ["b.pt.safetensors", "c.onnx"]);
        assert!(selected.indices.is_empty());
        // The digest of the restored file takes precedence over the previous revision.
        let restores = ["a.safetensors", "b.safetensors"].map(str::to_owned);
        let restores = restores.into_iter().zip([true, false]).collect();
        let selected = select(&now, &before, &restores);
        let paths: Vec<_> = selected.files.iter().map(|file| &*file.path).collect();
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
