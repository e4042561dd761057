//! Packing a file of a hub.

use sha2::{Digest, Sha256};
use zstn_core::frame::select::EncodeOptions;

use super::WorkerOptions;
use crate::hub::{ListedFile, Repository};
use crate::manifest::{Row, hex};
use crate::work::{Failure, Packed, Packer};
use zstn::{Input, Location};

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
