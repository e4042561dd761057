//! Packing one file, and comparing what it restores with the original.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use zstn_core::container::zstn::parse_sha256;
use zstn_core::frame::select::Effort;

use super::{Failure, Workspace};
use crate::manifest::{Done, Row, hex};
use crate::source::HttpOptions;
use crate::{Engine, Error, Input, Location, PackOptions, Progress, Result, Sink, UnpackOptions};

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

/// Packs files, one after the other, in a folder of its own.
#[derive(Debug)]
pub(crate) struct Packer {
    pub(crate) engine: Engine,
    pub(crate) options: WorkerOptions,
    workspace: Workspace,
    pub(crate) http: HttpOptions,
}

/// A packed file that restores the original. The file is removed with it.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) path: PathBuf,
    pub(crate) done: Done,
}

impl Drop for Packed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Packer {
    pub(crate) fn new(state: &Path, options: WorkerOptions, http: HttpOptions) -> Result<Self> {
        Ok(Self {
            engine: Engine::default(),
            options,
            workspace: Workspace::new(&state.join("work"))?,
            http,
        })
    }

    /// Packs `input`, the file of a row, and compares what comes back with its SHA-256.
    /// The file is read as it is packed, and is not kept. It may grow by less than
    /// `allowance_bytes`. `bases` are those of the row, if it has any.
    pub(crate) fn pack_input(
        &self,
        row: &Row,
        input: Input,
        bases: &[Location],
        allowance_bytes: u64,
        progress: &dyn Progress,
    ) -> Result<Packed, Failure> {
        let path = self.workspace.path(&row.packed_name());
        let mut packed = Packed {
            path,
            done: Done::new(row.clone(), 0, String::new()),
        };
        let mut options = PackOptions::default()
            .http(self.http.clone())
            .effort(self.options.effort)
            .extended(self.options.extended)
            .progress(progress);
        let mut unpacking = UnpackOptions::default()
            .http(self.http.clone())
            .progress(progress);
        if bases.is_empty() {
            // Compared with what comes back. A difference has no place for it.
            let sha256 = parse_sha256(&row.sha256).map_err(Error::from)?;
            options = options.checked_sha256(sha256);
        }
        for base in bases {
            options = options.base(base);
            unpacking = unpacking.base(base);
        }
        if let Some(bytes) = self.options.memory_bytes {
            options = options.memory_bytes(bytes);
            unpacking = unpacking.memory_bytes(bytes);
        }
        let report = crate::pack(&self.engine, input, Sink::path(&packed.path), &options)?;
        packed.done.packed_bytes = report.packed_bytes();
        if packed.done.packed_bytes >= report.original_bytes() + allowance_bytes {
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
                "{} of {} was packed into a file that restores other bytes than those that were \
                 listed: their SHA-256 is {restored}, not {}",
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

/// Returns the SHA-256 of a local file.
pub(super) fn digest(path: &Path) -> Result<String> {
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
