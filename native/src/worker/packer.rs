//! Packing one file, and comparing what it restores with the original.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use zstn_core::container::zstn::parse_sha256;
use zstn_core::frame::select::{Effort, EncodeOptions};

use super::failure::Failure;
use super::workspace::Workspace;
use crate::hub::{ListedFile, Repository};
use crate::manifest::{Done, Row, hex, key};
use crate::source::HttpOptions;
use crate::{Engine, Error, Input, Location, PackOptions, Result, Sink, UnpackOptions};

/// The longest file that a hub keeps without a SHA-256, in bytes.
const MAX_REGULAR_BYTES: u64 = 64 << 20;

/// The most that a shard may grow: this number of bytes, or this fraction (1/n) of
/// its length.
const SHARD_GROWTH_BYTES: u64 = 4096;
const SHARD_GROWTH_SHARE: u64 = 100;

/// Options for workers.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
#[must_use]
pub struct WorkerOptions {
    /// The trade-off of time against size.
    pub effort: Effort,
    /// Whether extension frames are written ([`PackOptions::extended`]).
    pub extended: bool,
    /// Memory to stay within, roughly, in bytes; `None` for the default of
    /// [`PackOptions`].
    pub memory_bytes: Option<u64>,
}

impl WorkerOptions {
    pub(super) fn encode(&self) -> EncodeOptions {
        EncodeOptions::new(self.effort).extended(self.extended)
    }
}

/// Packs files, one after the other, in a folder of its own.
#[derive(Debug)]
pub(super) struct Packer {
    pub(super) engine: Engine,
    pub(super) options: WorkerOptions,
    workspace: Workspace,
    http: HttpOptions,
}

/// A packed file that restores the original. The file is removed with it.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) path: PathBuf,
    pub(super) done: Done,
}

impl Drop for Packed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Packer {
    pub(super) fn new(state: &Path, options: WorkerOptions, http: HttpOptions) -> Result<Self> {
        Ok(Self {
            engine: Engine::default(),
            options,
            workspace: Workspace::new(&state.join("work"))?,
            http,
        })
    }

    /// Returns the row of a file, and its bytes if they had to be read to know them.
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
        let row = Row {
            repo: repository.to_string(),
            revision: revision.into(),
            path: file.path.clone(),
            len_bytes: file.len_bytes,
            key: key(&sha256, self.options.encode()),
            sha256,
        };
        Ok((row, bytes))
    }

    /// Packs the file of a row, or its `bytes` if they are there, and compares what
    /// comes back with its SHA-256. The file is read as it is packed, and is not kept.
    /// A shard may grow a little: without it, the others could not be read as one
    /// checkpoint.
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
        let path = self.workspace.path(&format!("{}.zstn", row.key));
        let mut packed = Packed {
            path,
            done: Done::new(row.clone(), 0, String::new()),
        };
        let mut options = PackOptions::default()
            .http(self.http.clone())
            .effort(self.options.effort)
            .extended(self.options.extended)
            // Compared with what comes back.
            .checked_sha256(parse_sha256(&row.sha256).map_err(Error::from)?);
        let mut unpacking = UnpackOptions::default();
        if let Some(bytes) = self.options.memory_bytes {
            options = options.memory_bytes(bytes);
            unpacking = unpacking.memory_bytes(bytes);
        }
        let report = crate::pack(&self.engine, input, Sink::path(&packed.path), &options)?;
        packed.done.packed_bytes = report.packed_bytes();
        let allowed_bytes = match is_shard {
            true => SHARD_GROWTH_BYTES.max(report.original_bytes() / SHARD_GROWTH_SHARE),
            false => 0,
        };
        if packed.done.packed_bytes >= report.original_bytes() + allowed_bytes {
            return Err(Failure::File(format!(
                "it would grow from {} to {} bytes",
                report.original_bytes(),
                packed.done.packed_bytes
            )));
        }
        let mut restored = Digested::default();
        let sink = Sink::writer(&mut restored);
        crate::unpack(&self.engine, &packed.path, sink, &unpacking).map_err(Failure::Error)?;
        let restored = hex(&restored.0.finalize());
        if restored != row.sha256 {
            let detail = format!(
                "{} of {} was packed into a file that restores other bytes than those that the \
                 hub lists: their SHA-256 is {restored}, not {}",
                row.path, row.repo, row.sha256
            );
            return Err(Failure::from(Error::Differs { detail }));
        }
        packed.done.packed_sha256 = digest(&packed.path)?;
        Ok(packed)
    }
}

/// A writer that keeps the SHA-256 alone.
#[derive(Default)]
struct Digested(Sha256);

impl Write for Digested {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the SHA-256 of a file.
fn digest(path: &Path) -> Result<String> {
    let mut file = File::open(path).map_err(Error::file("open", path))?;
    let mut sum = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let len = file.read(&mut buffer).map_err(Error::file("read", path))?;
        match buffer.get(..len) {
            Some(bytes) if len > 0 => sum.update(bytes),
            _ => return Ok(hex(&sum.finalize())),
        }
    }
}
