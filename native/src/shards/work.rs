//! Runs work on the shards of all checkpoints of a folder, several at a time and with one
//! progress.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use zstn_core::catalog::FileKind;
use zstn_core::container::zstn;

use super::plan::{Plan, Unit};
use super::{Shard, Shards};
use crate::catalog::open_catalog;
use crate::delta::{BaseFile, Bases};
use crate::pack::LEAST_MEMORY_BYTES;
use crate::progress::Part;
use crate::source::parallel::{self, FILES_AT_ONCE};
use crate::source::{Arriving, Begun, Local, Source};
use crate::{CancelToken, Engine, Error, Job, Progress as _, Result};

/// All checkpoints of a plan, opened, with their bases if they have any.
pub(super) struct Work<'a> {
    job: &'a Job<'a>,
    units: Vec<(&'a Unit<'a>, Option<Bases>, Files<'a>)>,
    /// True if remote shards are processed while they arrive.
    is_arriving: bool,
    /// Locked while the length of all shards is reported.
    total: Mutex<()>,
}

/// The shard that is being processed.
pub(super) struct CurrentShard<'a> {
    pub(super) unit: &'a Unit<'a>,
    /// The number of the shard's checkpoint in the plan.
    pub(super) unit_number: usize,
    /// Number of the shard in its checkpoint.
    pub(super) number: usize,
    /// The file of the shard on this machine.
    pub(super) local: &'a Local,
    /// The same file, if it is still arriving.
    pub(super) arriving: Option<&'a Arriving>,
    /// The job for the work on this shard.
    pub(super) job: &'a Job<'a>,
    bases: Option<&'a Bases>,
}

impl CurrentShard<'_> {
    /// Returns the path of the shard's result, relative to the result folder.
    pub(super) fn output(&self) -> PathBuf {
        self.unit.output(self.number)
    }

    /// Returns the path of the shard's input file, relative to the input folder.
    pub(super) fn input(&self) -> String {
        let file = &self.unit.shards.files()[self.number];
        self.unit.folder.join(&file.name).display().to_string()
    }

    /// Returns the base of the shard, which is a delta, fetched and restored. A shard that
    /// was packed as a container, because no delta could be made of it, has no base.
    pub(super) fn base(&self) -> Result<Option<BaseFile>> {
        if self.local.head(4)?.starts_with(&zstn::MAGIC) {
            return Ok(None);
        }
        let base = self
            .bases
            .map(|bases| bases.of_delta(&self.job.quiet(), self.local));
        base.transpose()
    }

    /// Returns the base for packing the shard, fetched and restored, if there is one.
    pub(super) fn base_for_packing(&self, is_extended: bool) -> Result<Option<BaseFile>> {
        let job = &self.job.quiet();
        let base = self
            .bases
            .map(|bases| bases.for_packing(job, self.local, is_extended));
        base.transpose()
    }
}

impl<'a> Work<'a> {
    /// Finds the bases of all checkpoints in `bases`, opens the shards, and begins the
    /// progress.
    pub(super) fn open(job: &'a Job<'a>, plan: &'a Plan<'a>, bases: &[Shards]) -> Result<Self> {
        let mut units = Vec::new();
        for unit in &plan.units {
            // A container in a folder of deltas has no base.
            let bases = match unit.is_original || unit.from == FileKind::Zstn {
                true => None,
                false => bases_of(unit, bases)?,
            };
            units.push((unit, bases, Files::open(job, &unit.shards)?));
        }
        let work = Self {
            job,
            units,
            is_arriving: false,
            total: Mutex::default(),
        };
        job.begin(work.len_bytes());
        Ok(work)
    }

    /// Processes remote shards while they arrive, if `is_arriving`. Only packing can do
    /// this.
    pub(super) fn while_arriving(mut self, is_arriving: bool) -> Self {
        self.is_arriving = is_arriving;
        self
    }

    /// Runs `work` on all shards. Returns the results in the order of the shards, and the
    /// tensors that the indices list.
    ///
    /// # Errors
    /// The error of the first shard that fails, in the order of the shards.
    pub(super) fn each<T: Send>(
        self,
        work: impl Fn(CurrentShard) -> Result<T> + Sync,
    ) -> Result<(Vec<T>, Indexed)> {
        let at_once = self.at_once();
        let units = self.units.iter().enumerate();
        let shards = units.flat_map(|(unit_number, (.., files))| {
            let numbers = 0..files.shards.files().len();
            numbers.map(move |number| (unit_number, number))
        });
        let shards: Vec<_> = shards.collect();
        let tokens: Vec<_> = shards.iter().map(|_| self.job.child_token()).collect();
        let downloads = Downloads::default();
        let results = parallel::run(shards.len(), at_once, |place| {
            let (unit_number, number) = shards[place];
            let (unit, bases, files) = &self.units[unit_number];
            let job = self.job.for_one_of(at_once, &tokens[place]);
            let result = job.run(|job| {
                let fetching = |so_far, len| downloads.report(job, place, so_far, len);
                let begun = files.begin(job, number, self.is_arriving, &fetching)?;
                let (local, arriving) = match &begun {
                    Begun::Arriving(arriving) => (arriving.input(), Some(arriving)),
                    Begun::Whole(local) => (local, None),
                };
                let len_bytes = self.len_of(job, files, number, local)?;
                let progress = Part::new(self.job, len_bytes);
                let result = work(CurrentShard {
                    unit,
                    unit_number,
                    number,
                    local,
                    arriving,
                    job: &job.clone().progress(&progress),
                    bases: bases.as_ref(),
                })?;
                progress.finish();
                Ok(result)
            });
            if result.is_err() {
                // The result is this error or an earlier one, whatever later shards do.
                tokens[place..].iter().for_each(CancelToken::cancel);
            }
            result
        });
        let (results, mut all) = (results?, Indexed::default());
        for (.., files) in self.units {
            files
                .into_looked()
                .for_each(|looked| all.add(looked.indexed));
        }
        Ok((results, all))
    }

    /// Returns the number of shards that are processed at the same time. Each has one
    /// thread for SHA-256, which would be the limit on a machine with many cores. Remote
    /// shards wait for their servers, so the number of threads is no limit for them.
    /// Bases that are fetched or restored take disk space for whole originals, so there is
    /// one of them at a time.
    fn at_once(&self) -> usize {
        const MAX_AT_ONCE: usize = 4;
        const THREADS_EACH: usize = 2;
        let mut bases = self.units.iter().filter_map(|(_, bases, _)| bases.as_ref());
        if bases.any(Bases::take_disk_space) {
            return 1;
        }
        let files = self.units.iter().map(|(.., files)| files);
        let mut shards = files.flat_map(|files| files.shards.files());
        let by_threads = match shards.any(|shard| shard.location.is_remote()) {
            true => MAX_AT_ONCE,
            false => self.job.engine.threads() / THREADS_EACH,
        };
        let by_memory = self.job.memory() / LEAST_MEMORY_BYTES;
        let by_memory = usize::try_from(by_memory).unwrap_or(usize::MAX);
        by_threads.min(by_memory).clamp(1, MAX_AT_ONCE)
    }

    /// Returns the number of bytes of work on shard `number` of `files`, whose file is
    /// `local`. If that was not known before, reports the length of all shards again.
    fn len_of(&self, job: &Job, files: &Files, number: usize, local: &Local) -> Result<u64> {
        let known_bytes = files.looked()[number].original_len_bytes;
        if known_bytes > 0 {
            return Ok(known_bytes);
        }
        let looked = look(&job.engine, &files.shards.files()[number], local)?;
        let len_bytes = looked.original_len_bytes;
        // Shards are fetched at the same time. The last of them reports the length of all.
        let _total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        files.looked()[number] = looked;
        self.job.begin(self.len_bytes());
        Ok(len_bytes)
    }

    /// Returns the known number of bytes of work on all shards.
    fn len_bytes(&self) -> u64 {
        self.units.iter().map(|(.., files)| files.len_bytes()).sum()
    }
}

/// Finds the bases of a checkpoint in `chain`, nearest first: the checkpoint at the top
/// for the one at the top, and the one in the same subfolder for one in a subfolder
/// ([`Unit::files_of_base`]). Returns `None` if there is no base.
fn bases_of(unit: &Unit, chain: &[Shards]) -> Result<Option<Bases>> {
    if unit.is_top() && chain.iter().all(|base| !base.files().is_empty()) {
        return Ok(Bases::of_checkpoints(chain));
    }
    let chain = chain.iter().map(|base| {
        let (files, index) = unit.files_of_base(base)?;
        Ok((base.location().to_string(), files, index))
    });
    Ok(Bases::of_files(chain.collect::<Result<_>>()?))
}

/// The files of a checkpoint. All of them are inspected before the work begins, but a
/// remote file only if its server supports ranges. Each file is opened or fetched again
/// when the work reaches it, so only files that are being processed need a descriptor
/// or disk space.
struct Files<'a> {
    shards: &'a Shards,
    /// The results of inspecting the shards, in their order.
    looked: Mutex<Vec<Looked>>,
}

/// The tensors that an index lists, after a comparison with the files.
#[derive(Debug, Default)]
pub(super) struct Indexed {
    /// The number of listed tensors that were found in their files.
    pub(super) found: usize,
    /// The names of listed tensors that are missing from their files.
    pub(super) missing: Vec<String>,
}

impl Indexed {
    fn add(&mut self, other: Self) {
        self.found += other.found;
        self.missing.extend(other.missing);
    }
}

impl<'a> Files<'a> {
    /// Inspects all files and compares them with the index. Files on servers are
    /// inspected at the same time.
    fn open(job: &Job, shards: &'a Shards) -> Result<Self> {
        let files = shards.files();
        let are_remote = files.iter().map(|shard| shard.location.is_remote());
        let at_once = parallel::at_once(are_remote, FILES_AT_ONCE);
        let engine = job.steady_engine();
        let looked = parallel::run(files.len(), at_once, |number| {
            let shard = &files[number];
            if !shard.location.is_remote() {
                return look(&engine, shard, &*shard.open(&job.http)?);
            }
            let source = shard.location.open_ranged(&job.http)?;
            let looked = source.map(|source| look(&engine, shard, &*source));
            Ok(looked.transpose()?.unwrap_or_default())
        });
        Ok(Self {
            shards,
            looked: Mutex::new(looked?),
        })
    }

    /// Returns the known number of bytes of work on all shards.
    fn len_bytes(&self) -> u64 {
        let looked = self.looked();
        looked.iter().map(|looked| looked.original_len_bytes).sum()
    }

    /// Opens or fetches a shard for `job`. If it `may_arrive`, only begins to receive a
    /// remote shard, unless its length is unknown or its server does not offer ranges of
    /// one version of the file. `fetching` is called while the whole file is fetched.
    fn begin(
        &self,
        job: &Job,
        number: usize,
        may_arrive: bool,
        fetching: &dyn Fn(u64, Option<u64>),
    ) -> Result<Begun> {
        let shard = &self.shards.files()[number];
        let is_known = self.looked()[number].original_len_bytes > 0;
        if may_arrive
            && is_known
            && shard.location.is_remote()
            && let Some(feed) = shard.location.feed(&job.http)?
        {
            return Arriving::begin(feed, |_, _, _| Ok(()), fetching);
        }
        shard.fetch_packed(&job.http, fetching).map(Begun::Whole)
    }

    fn looked(&self) -> MutexGuard<'_, Vec<Looked>> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn into_looked(self) -> impl Iterator<Item = Looked> {
        let looked = self.looked.into_inner();
        looked.unwrap_or_else(PoisonError::into_inner).into_iter()
    }
}

/// The whole files that are fetched for the work, which are reported as one download.
#[derive(Default)]
struct Downloads {
    /// The number of bytes received of each file, and its length if it is known.
    files: Mutex<BTreeMap<usize, (u64, Option<u64>)>>,
}

impl Downloads {
    /// Reports to `job` that `so_far_bytes` of the file at this place have been received.
    fn report(&self, job: &Job, place: usize, so_far_bytes: u64, len_bytes: Option<u64>) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(place, (so_far_bytes, len_bytes));
        let so_far_bytes = files.values().map(|(so_far_bytes, _)| so_far_bytes).sum();
        let len_bytes = files.values().map(|(_, len_bytes)| *len_bytes).sum();
        job.fetching(so_far_bytes, len_bytes);
    }
}

/// The result of inspecting a shard.
#[derive(Default)]
struct Looked {
    /// Length in bytes of the file that the shard is or restores; 0 if it is not known yet.
    original_len_bytes: u64,
    /// The tensors that the index lists in this file.
    indexed: Indexed,
}

/// Looks for the tensors of a shard in its file. In a file whose format is refused, no
/// tensors are looked for; if it is not a checkpoint at all, the work itself refuses
/// it.
fn look(engine: &Engine, shard: &Shard, source: &dyn Source) -> Result<Looked> {
    let catalog = match open_catalog(engine, source) {
        Ok(catalog) => catalog,
        Err(Error::Format { .. }) => {
            return Ok(Looked {
                original_len_bytes: source.len_bytes(),
                indexed: Indexed::default(),
            });
        }
        Err(other) => return Err(other),
    };
    let missing = shard.missing(&catalog);
    Ok(Looked {
        original_len_bytes: match catalog.kind() {
            FileKind::Safetensors | FileKind::Zstn | FileKind::Delta => {
                catalog.original_len_bytes()
            }
            _ => source.len_bytes(),
        },
        indexed: Indexed {
            found: shard.tensors.len() - missing.len(),
            missing,
        },
    })
}

/// Makes the whole file of a shard available on this machine.
pub(super) fn fetch(job: &Job, shard: &Shard) -> Result<Local> {
    shard.fetch(&job.http, &|so_far, len| job.fetching(so_far, len))
}
