//! The files that a commit adds: packed files, their indices, and a line in
//! `.gitattributes`.

use std::collections::HashSet;

use sha2::{Digest, Sha256};
use zstn_core::frame::select::EncodeOptions;

use super::runner::Runner;
use super::selection::select;
use super::several::in_order;
use super::{JobEvent, Stage, WorkerOptions};
use crate::hub::{self, Addition, ListedFile, Repository};
use crate::manifest::{Class, Done, Failed, Results, Row, hex, key};
use crate::work::{Failure, Packed, Packer, class};
use zstn::internals::packed_index_of;
use zstn::{Error, Input, Location};
use zstn_serve::path::{packed_path, packed_safetensors_path};

/// Maximum length of an index or `.gitattributes`, in bytes.
const MAX_SMALL_BYTES: u64 = 8 << 20;
const ATTRIBUTES: &str = ".gitattributes";
const ATTRIBUTES_LINE: &str = "*.zstn filter=lfs diff=lfs merge=lfs -text";

/// The revision being packed.
pub(super) struct Revision<'a> {
    pub(super) repository: &'a Repository,
    pub(super) head: &'a str,
    pub(super) results: &'a Results,
    pub(super) contents: Option<&'a HashSet<String>>,
}

impl Revision<'_> {
    /// Returns whether a file is to be packed. Without `contents`, all files are.
    pub(super) fn has_chosen(&self, file: &ListedFile) -> bool {
        match (self.contents, &file.sha256) {
            (None, _) => true,
            (Some(contents), Some(sha256)) => contents.contains(sha256),
            (Some(_), None) => false,
        }
    }
}

/// The files that a commit adds, and the error of a file that is missing from it.
pub(super) struct Additions {
    pub(super) additions: Vec<Addition>,
    /// The error of one file that failed, preferably a transient one.
    pub(super) failure: Option<Error>,
}

/// The shard index of a packed checkpoint, which a commit adds once all its shards exist.
struct PackedIndex {
    path: String,
    text: Vec<u8>,
    /// Paths of the packed shards in the repository.
    shards: Vec<String>,
}

impl Runner {
    /// Packs and uploads the files that a revision lacks, several at the same time, and
    /// returns the files to commit. If one file fails, the others are still packed.
    pub(super) fn additions(
        &self,
        revision: &Revision<'_>,
        files: &[ListedFile],
        before: &[ListedFile],
    ) -> Result<Additions, Failure> {
        let mut failures = Vec::new();
        let restores = self.restores(revision, files, &mut failures)?;
        let selected = select(files, before, &restores);
        let mut indices = Vec::new();
        for path in &selected.indices {
            match self.packed_index(revision, path) {
                Ok(index) => indices.extend(index),
                Err(failure) => failures.push(of_one_file(failure)?),
            }
        }
        let named: HashSet<&String> = indices.iter().flat_map(|index| &index.shards).collect();
        let there: HashSet<&str> = files.iter().map(|file| &*file.path).collect();
        let mut additions = Vec::new();
        let mut refused = HashSet::new();
        let chosen = selected.files.iter();
        let chosen = chosen.filter(|file| revision.has_chosen(file));
        let chosen = chosen.filter_map(|file| Some((file, packed_path(&file.path)?)));
        // Files of equal content need one packed file, so all but the first come later.
        let mut seen = HashSet::new();
        let (first, again): (Vec<_>, Vec<_>) = chosen.partition(|(file, _)| {
            let options = self.packer.options.encode();
            let sha256 = file.sha256.as_ref();
            sha256.is_none_or(|sha256| seen.insert(key((&file.path, sha256), options)))
        });
        for group in [&first, &again] {
            let (at_once, packer) = self.packer.for_one_of(group.len());
            let work = |(file, path): &(&ListedFile, String)| match self.stop.is_requested() {
                true => Err(Failure::Stopped),
                false if there.contains(&**path) && self.keeps(revision, file, path)? => Ok(None),
                false => self.file(&packer, revision, file, named.contains(path)),
            };
            in_order(group, at_once, work, |(file, path), outcome| {
                match outcome {
                    Ok(Some(done)) => additions.push(Addition::Large {
                        path: path.clone(),
                        sha256: done.packed_sha256,
                        len_bytes: done.packed_bytes,
                    }),
                    Ok(None) => drop(refused.insert(&**path)),
                    Err(failure) => {
                        let error = of_one_file(failure)?;
                        let repository = revision.repository.to_string();
                        let stage = match class(&error) {
                            Class::Retry => Stage::Retry,
                            Class::Refused => Stage::Failed,
                        };
                        let event = JobEvent::new(stage, &repository, revision.head);
                        self.tell(event.path(&file.path).detail(error.to_string()));
                        failures.push(error);
                        refused.insert(&**path);
                    }
                }
                Ok::<(), Failure>(())
            })?;
        }
        let added: HashSet<String> = additions.iter().map(|a| a.path().to_owned()).collect();
        let has =
            |path: &str| (there.contains(path) || added.contains(path)) && !refused.contains(path);
        for index in &indices {
            match index.shards.iter().find(|shard| !has(shard)) {
                None => additions.push(Addition::Small {
                    path: index.path.clone(),
                    bytes: index.text.clone(),
                }),
                Some(shard) => {
                    self.refuse(revision, &index.path, format!("{shard} is not there"));
                }
            }
        }
        if additions
            .iter()
            .any(|addition| matches!(addition, Addition::Large { .. }))
        {
            additions.extend(self.attributes(revision, &there)?);
        }
        let may_pass = |error: &Error| class(error) == Class::Retry;
        let chosen = failures.iter().position(may_pass).unwrap_or(0);
        Ok(Additions {
            additions,
            failure: failures.into_iter().nth(chosen),
        })
    }

    /// Returns whether the existing packed file of a file must be kept, because it restores
    /// another one. The file is then refused.
    fn keeps(
        &self,
        revision: &Revision<'_>,
        file: &ListedFile,
        packed: &str,
    ) -> Result<bool, Failure> {
        let is_kept = self.is_of_another_name(revision, file, packed);
        let is_kept = is_kept.map_err(Failure::Error)?;
        if is_kept {
            let reason = format!(
                "{packed} restores a file of another format and would be replaced; rename one of \
                 them"
            );
            self.refuse(revision, &file.path, reason);
        }
        Ok(is_kept)
    }

    /// Packs and uploads a file. Returns `None` if it is refused.
    fn file(
        &self,
        packer: &Packer,
        revision: &Revision<'_>,
        file: &ListedFile,
        is_shard: bool,
    ) -> Result<Option<Done>, Failure> {
        let refusal = self.unread_refusal(revision, file);
        if let Some(failed) = refusal.map_err(Failure::Error)? {
            self.refuse(revision, &file.path, failed.reason);
            return Ok(None);
        }
        let row = packer.row(revision.repository, revision.head, file);
        let (row, bytes) = match row {
            Err(Failure::File(reason)) => {
                self.refuse(revision, &file.path, reason);
                return Ok(None);
            }
            row => row?,
        };
        let event = |stage| JobEvent::new(stage, &row.repo, &row.revision).path(&row.path);
        if let Some(done) = revision.results.done(&row.key).map_err(Failure::Error)? {
            let (sha256, len_bytes) = (&done.packed_sha256, done.packed_bytes);
            let has = self.hub.has_object(revision.repository, sha256, len_bytes);
            if self.call(has)? {
                self.tell(event(Stage::Reused).bytes(row.len_bytes, len_bytes));
                return Ok(Some(done));
            }
        }
        let failed = revision.results.failed(&row.key).map_err(Failure::Error)?;
        if let Some(failed) = failed.filter(|failed| failed.class == Class::Refused) {
            self.tell(event(Stage::Refused).detail(failed.reason));
            return Ok(None);
        }
        let packed = match packer.pack(&row, bytes, is_shard) {
            Ok(packed) => packed,
            Err(Failure::File(reason)) => {
                let failed = Failed::new(row.clone(), Class::Refused, reason.clone());
                revision
                    .results
                    .put_failed(&failed)
                    .and_then(|()| self.note_refused(revision, file, &row.sha256))
                    .map_err(Failure::Error)?;
                self.tell(event(Stage::Refused).detail(reason));
                return Ok(None);
            }
            Err(Failure::Error(error)) => {
                let failed = Failed::new(row.clone(), Class::Retry, error.to_string());
                let noted = revision.results.put_failed(&failed);
                noted.map_err(Failure::Error)?;
                return Err(Failure::Error(error));
            }
            Err(Failure::Stopped) => return Err(Failure::Stopped),
        };
        let done = packed.done.clone();
        let uploaded = self.hub.upload(
            revision.repository,
            &packed.path,
            &done.packed_sha256,
            done.packed_bytes,
        );
        self.call(uploaded)?;
        revision.results.put_done(&done).map_err(Failure::Error)?;
        self.metrics.count_packed(row.len_bytes, done.packed_bytes);
        self.tell(event(Stage::Packed).bytes(row.len_bytes, done.packed_bytes));
        Ok(Some(done))
    }

    /// Returns the index of packed shards for an index of unpacked ones, or `None` if
    /// it is refused.
    fn packed_index(
        &self,
        revision: &Revision<'_>,
        path: &str,
    ) -> Result<Option<PackedIndex>, Failure> {
        let Some(packed) = packed_safetensors_path(path) else {
            return Ok(None);
        };
        let (repository, head) = (revision.repository, revision.head);
        let text = self.hub.read_small(repository, head, path, MAX_SMALL_BYTES);
        let made = text.and_then(|text| packed_index_of(path, text));
        match made.map_err(Failure::from) {
            Ok((text, shards)) => {
                let folder = path
                    .rsplit_once('/')
                    .map(|(folder, _)| format!("{folder}/"));
                let folder = folder.unwrap_or_default();
                let shards = shards.iter().map(|shard| format!("{folder}{shard}"));
                Ok(Some(PackedIndex {
                    path: packed,
                    text,
                    shards: shards.collect(),
                }))
            }
            Err(Failure::File(reason)) => {
                self.refuse(revision, path, reason);
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Reports that a file or an index is refused.
    fn refuse(&self, revision: &Revision<'_>, path: &str, reason: String) {
        let repository = revision.repository.to_string();
        let event = JobEvent::new(Stage::Refused, &repository, revision.head);
        self.tell(event.path(path).detail(reason));
    }

    /// Returns `.gitattributes` with an added line that makes git-lfs store packed
    /// files, or `None` if it already has a line for them.
    fn attributes(
        &self,
        revision: &Revision<'_>,
        there: &HashSet<&str>,
    ) -> Result<Option<Addition>, Failure> {
        let mut bytes = match there.contains(ATTRIBUTES) {
            true => {
                let (repository, head) = (revision.repository, revision.head);
                let read = self
                    .hub
                    .read_small(repository, head, ATTRIBUTES, MAX_SMALL_BYTES);
                self.call(read)?
            }
            false => Vec::new(),
        };
        let mut lines = bytes.split(|byte| *byte == b'\n');
        if lines.any(|line| line.starts_with(b"*.zstn ")) {
            return Ok(None);
        }
        if !bytes.is_empty() && !bytes.ends_with(b"\n") {
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(ATTRIBUTES_LINE.as_bytes());
        bytes.push(b'\n');
        Ok(Some(Addition::Small {
            path: ATTRIBUTES.into(),
            bytes,
        }))
    }
}

/// Returns the error if it concerns a single file only; otherwise returns the failure.
fn of_one_file(failure: Failure) -> Result<Error, Failure> {
    match failure {
        // The hub rejects this object. Other refusals concern the whole repository.
        Failure::Error(error) => match hub::Refusal::in_error(&error) {
            None | Some(hub::Refusal::Object { .. }) => Ok(error),
            Some(_) => Err(Failure::Error(error)),
        },
        failure => Err(failure),
    }
}

/// Maximum length of a file without a SHA-256 in the hub's list, in bytes. Such a file
/// is read to compute the SHA-256.
const MAX_REGULAR_BYTES: u64 = 64 << 20;

/// A packed shard may be larger than its original by this many bytes, or by this
/// fraction (1/n) of its length, whichever is more.
const SHARD_GROWTH_BYTES: u64 = 4096;
const SHARD_GROWTH_SHARE: u64 = 100;

impl WorkerOptions {
    pub(super) fn encode(&self) -> EncodeOptions {
        EncodeOptions::new(self.effort).extended(self.extended)
    }
}

impl Packer {
    /// Returns the row of a file, and the file's bytes if they were read to compute the
    /// SHA-256.
    pub(super) fn row(
        &self,
        repository: &Repository,
        revision: &str,
        file: &ListedFile,
    ) -> Result<(Row, Option<Vec<u8>>), Failure> {
        let mut bytes = None;
        let sha256 = match &file.sha256 {
            Some(sha256) => sha256.clone(),
            None => {
                let location = Location::url(repository.file_url(revision, &file.path));
                let read = location.read_small(&self.http, MAX_REGULAR_BYTES)?.0;
                let digest = hex(&Sha256::digest(&read));
                bytes = Some(read);
                digest
            }
        };
        let repo = repository.to_string();
        let place = (&*repo, revision, &*file.path);
        let row = Row::new(place, file.len_bytes, &sha256, self.options.encode());
        Ok((row, bytes))
    }

    /// Packs the file of a row from the hub, or from `bytes` if they are given. A shard
    /// may grow slightly, because without it the packed shards would not form a
    /// complete checkpoint.
    pub(super) fn pack(
        &self,
        row: &Row,
        bytes: Option<Vec<u8>>,
        is_shard: bool,
    ) -> Result<Packed, Failure> {
        let repository: Repository = row.repo.parse()?;
        let input = match bytes {
            Some(bytes) => Input::bytes(&*row.path, bytes),
            None => Location::url(repository.file_url(&row.revision, &row.path)).into(),
        };
        let allowance = match is_shard {
            true => SHARD_GROWTH_BYTES.max(row.len_bytes / SHARD_GROWTH_SHARE),
            false => 0,
        };
        self.pack_input(row, input, &[], allowance, &())
    }
}
