//! Packing a file and verifying that the packed file restores it.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use std::{fs, thread};

use zstn_core::Rule;
use zstn_core::catalog::has_other_extension;
use zstn_core::container::zstn::parse_sha256;
use zstn_core::frame::select::Effort;

use super::Failure;
use crate::lock::Lock;
use crate::manifest::{Done, Row};
use crate::proof;
use zstn::internals::Staging;
use zstn::source::HttpOptions;
use zstn::{
    Engine, Error, Input, Job, Location, PackOptions, Progress, Result, Sink, UnpackOptions,
};

/// Options for packing the files of a worker or plan.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
#[must_use]
pub struct WorkerOptions {
    /// The trade-off between time and size.
    pub effort: Effort,
    /// Selects whether extension frames are written ([`PackOptions::extended`]).
    pub extended: bool,
    /// Approximate memory limit in bytes; `None` for the default of [`Job`].
    pub memory_bytes: Option<u64>,
}

/// Packs files in a temporary folder, which its clones share.
#[derive(Debug, Clone)]
pub(crate) struct Packer {
    pub(crate) engine: Engine,
    pub(crate) options: WorkerOptions,
    workspace: Arc<Workspace>,
    pub(crate) http: HttpOptions,
}

/// A packed file that has been verified. The file is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) path: PathBuf,
    pub(crate) done: Done,
}

impl Drop for Packed {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Packer {
    pub(crate) fn new(state: &Path, options: WorkerOptions, http: HttpOptions) -> Result<Self> {
        Ok(Self {
            engine: Engine::default(),
            options,
            workspace: Arc::new(Workspace::new(&state.join("work"))?),
            http,
        })
    }

    /// Returns how many of `count` files are packed at the same time, and a packer with
    /// the share of the memory that each of them has. Every file has one thread for
    /// SHA-256, which would be the limit on a machine with many cores, and waits for a hub
    /// or a store while it is read and sent.
    #[cfg(feature = "worker")]
    pub(crate) fn for_one_of(&self, count: usize) -> (usize, Self) {
        const MAX_AT_ONCE: usize = 4;
        const MIN_AT_ONCE: usize = 2;
        const THREADS_EACH: usize = 2;
        /// The least memory with which packing works well.
        const MIN_BYTES: u64 = 256 << 20;
        let memory_bytes = self.options.memory_bytes;
        let memory_bytes =
            memory_bytes.unwrap_or_else(|| zstn::internals::default_memory_bytes(&self.engine));
        let by_memory = usize::try_from(memory_bytes / MIN_BYTES).unwrap_or(MAX_AT_ONCE);
        let by_threads = self.engine.threads() / THREADS_EACH;
        let by_threads = by_threads.clamp(MIN_AT_ONCE, MAX_AT_ONCE);
        let at_once = by_threads.min(by_memory).min(count).max(1);
        let mut packer = self.clone();
        if at_once > 1 {
            packer.options.memory_bytes = Some(memory_bytes / at_once as u64);
        }
        (at_once, packer)
    }

    /// Packs `input`, the file of a row, and verifies that the packed file restores the
    /// row's SHA-256. A safetensors file is packed while it is read and is not stored; a
    /// remote file of another format is first stored in the folder for temporary files.
    /// A file whose format is not the one that its name states is refused before it is
    /// packed. The packed file must be shorter than the original plus `allowance_bytes`. `bases`
    /// are the files of the row's bases, if it has any.
    pub(crate) fn pack_input(
        &self,
        row: &Row,
        input: Input,
        bases: &[Location],
        allowance_bytes: u64,
        progress: &dyn Progress,
    ) -> Result<Packed, Failure> {
        let location = input.location().cloned();
        let path = self.workspace.path(&row.packed_name());
        let mut packed = Packed {
            path,
            done: Done::new(row.clone(), 0, String::new()),
        };
        let mut job = Job::new()
            .engine(&self.engine)
            .http(self.http.clone())
            .progress(progress);
        if let Some(bytes) = self.options.memory_bytes {
            job = job.memory_bytes(bytes);
        }
        let mut options = PackOptions::default()
            .effort(self.options.effort)
            .extended(self.options.extended)
            // Readers choose the name of the restored file by its format.
            .only_other_format(has_other_extension(&row.path));
        let mut unpacking = UnpackOptions::default();
        if bases.is_empty() {
            // Unpacking a container checks this digest. A delta cannot store it.
            let sha256 = parse_sha256(&row.sha256).map_err(Error::from)?;
            options = options.checked_sha256(sha256);
        }
        for base in bases {
            options = options.base(base);
            unpacking = unpacking.base(base);
        }
        let report = zstn::pack(&job, input, Sink::path(&packed.path), &options)?;
        packed.done.packed_bytes = report.packed_bytes();
        if packed.done.packed_bytes >= report.original_bytes() + allowance_bytes {
            return Err(Failure::File(format!(
                "it would grow from {} to {} bytes",
                report.original_bytes(),
                packed.done.packed_bytes
            )));
        }
        let (restored, packed_sha256) = thread::scope(|scope| {
            let digest = scope.spawn(|| digest(&packed.path, progress));
            let restored = proof::restored(&job, &packed.path, &unpacking);
            let digest = digest.join();
            (
                restored,
                digest.unwrap_or_else(|payload| resume_unwind(payload)),
            )
        });
        match restored {
            Ok(restored) if restored == row.sha256 => {}
            Ok(_) => return Err(self.differs(row, location.as_ref())),
            // Restoring has found that the file differs from the SHA-256 passed to the
            // packer.
            Err(Error::Format { source, .. }) if source.rule() == Some(Rule::ZstnFileDigest) => {
                return Err(self.differs(row, location.as_ref()));
            }
            Err(error) => return Err(Failure::Error(error)),
        }
        packed.done.packed_sha256 = packed_sha256?;
        Ok(packed)
    }

    /// Returns the failure for a packed file that restores another SHA-256 than the
    /// row's. The original is read again to distinguish a file that has changed from a
    /// defect of the packer.
    fn differs(&self, row: &Row, location: Option<&Location>) -> Failure {
        let read = location.map(|location| proof::stream(location, &self.http, |_| Ok(())));
        let detail = match read {
            Some(Err(error)) => return Failure::Error(error),
            Some(Ok((_, found))) if found != row.sha256 => format!(
                "{} of {} has changed since it was listed: the SHA-256 of its bytes is {found}, \
                 not {}; plan again",
                row.path, row.repo, row.sha256
            ),
            _ => format!(
                "{} of {} was packed into a file that restores other bytes; this is a defect of \
                 zstn, please report it",
                row.path, row.repo
            ),
        };
        Failure::from(Error::Differs { detail })
    }
}

/// Returns the SHA-256 of a local file.
fn digest(path: &Path, progress: &dyn Progress) -> Result<String> {
    let checked = |_: &[u8]| progress.check();
    let (_, digest) = proof::stream(&path.into(), &HttpOptions::default(), checked)?;
    Ok(digest)
}

/// The temporary folder of one process, removed when this is dropped. The folder of a
/// killed process is removed by the next process that starts.
#[derive(Debug)]
struct Workspace {
    folder: Staging,
    /// The number of files that have been made in the folder.
    files: AtomicUsize,
    _lock: Lock,
}

impl Workspace {
    /// Creates a folder in `folder`, and removes the folders of processes that have
    /// ended.
    fn new(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).map_err(Error::file("make the folder", folder))?;
        // A new folder has no lock until `Lock::take` below, so only one process at a
        // time may create or remove folders.
        let guard_path = folder.join("lock");
        let _guard = loop {
            match Lock::take(&guard_path)? {
                Some(guard) => break guard,
                None => thread::sleep(Duration::from_millis(20)),
            }
        };
        let entries = fs::read_dir(folder).map_err(Error::file("read the folder", folder))?;
        for entry in entries.filter_map(std::result::Result::ok) {
            let path = entry.path();
            if path.is_dir() && matches!(Lock::take(&path.join("lock")), Ok(Some(_))) {
                let _ = fs::remove_dir_all(&path);
            }
        }
        let own = Staging::inside(folder, "worker-");
        let own = own.map_err(Error::file("make a folder in", folder))?;
        let lock_path = own.path("lock");
        let lock = Lock::take(&lock_path)?.ok_or_else(|| {
            let error = std::io::Error::other("another process has locked it");
            Error::file("lock", &lock_path)(error)
        })?;
        Ok(Self {
            folder: own,
            files: AtomicUsize::new(0),
            _lock: lock,
        })
    }

    /// Returns the path for a new file in the folder; `name` is a part of it.
    fn path(&self, name: &str) -> PathBuf {
        let number = self.files.fetch_add(1, Relaxed);
        self.folder.path(format!("{number}-{name}"))
    }
}
