//! Runs work on the shards of all checkpoints of a folder, sequentially and with one
//! progress.

use std::path::PathBuf;
use std::sync::Arc;

use zstn_core::catalog::FileKind;
use zstn_core::container::zstn;

use super::plan::{Plan, Unit};
use super::{Shard, Shards};
use crate::catalog::open_catalog;
use crate::delta::BaseFile;
use crate::progress::Part;
use crate::source::parallel::{self, FILES_AT_ONCE};
use crate::source::{Local, Source};
use crate::{Engine, Error, Job, Progress as _, Result};

/// All checkpoints of a plan, opened, with their bases if they have any.
pub(super) struct Work<'a> {
    job: &'a Job<'a>,
    units: Vec<(&'a Unit<'a>, Option<Bases>, Files<'a>)>,
}

/// The shard that is being processed.
pub(super) struct CurrentShard<'a> {
    pub(super) unit: &'a Unit<'a>,
    /// Number of its checkpoint in the plan.
    pub(super) unit_number: usize,
    /// Number of the shard in its checkpoint.
    pub(super) number: usize,
    /// The file of the shard on this machine.
    pub(super) local: &'a Local,
    /// The job for the work on this shard.
    pub(super) job: &'a Job<'a>,
    bases: Option<&'a Bases>,
}

impl CurrentShard<'_> {
    /// Returns the path of its result, relative to the result folder.
    pub(super) fn output(&self) -> PathBuf {
        self.unit.output(self.number)
    }

    /// Returns the path of its input file, relative to the input folder.
    pub(super) fn input(&self) -> String {
        let file = &self.unit.shards.files()[self.number];
        self.unit.folder.join(&file.name).display().to_string()
    }

    /// Returns its base, fetched and restored, if it has one. A shard that was packed
    /// as a container, because no delta could be made of it, has none.
    pub(super) fn base(&self) -> Result<Option<BaseFile>> {
        if self.local.head(4)?.starts_with(&zstn::MAGIC) {
            return Ok(None);
        }
        let open = |bases: &Bases| bases.open(self.job, self.number);
        self.bases.map(open).transpose()
    }
}

impl<'a> Work<'a> {
    /// Finds the counterparts of all shards in `bases`, opens the shards, and begins
    /// the progress.
    pub(super) fn open(job: &'a Job<'a>, plan: &'a Plan<'a>, bases: &[Shards]) -> Result<Self> {
        let mut units = Vec::new();
        for unit in &plan.units {
            // A container in a folder of deltas has no base.
            let bases = match unit.from {
                FileKind::Zstn => None,
                _ => Bases::find(unit, bases)?,
            };
            units.push((unit, bases, Files::open(job, &unit.shards)?));
        }
        let len_bytes = units.iter().map(|(.., files)| files.len_bytes());
        job.begin(len_bytes.sum());
        Ok(Self { job, units })
    }

    /// Runs `work` on the shards sequentially. Returns the results, and the tensors
    /// that the indices list.
    pub(super) fn each<T>(
        self,
        mut work: impl FnMut(CurrentShard) -> Result<T>,
    ) -> Result<(Vec<T>, Indexed)> {
        let (mut results, mut all) = (Vec::new(), Indexed::default());
        for (unit_number, (unit, bases, mut files)) in self.units.into_iter().enumerate() {
            for number in 0..files.lens_bytes.len() {
                let local = files.fetch(number)?;
                let progress = Part::new(self.job, files.lens_bytes[number]);
                results.push(work(CurrentShard {
                    unit,
                    unit_number,
                    number,
                    local: &local,
                    job: &self.job.clone().progress(&progress),
                    bases: bases.as_ref(),
                })?);
                progress.finish();
            }
            all.add(files.indexed);
        }
        Ok((results, all))
    }
}

/// The shards of every base in a chain that correspond to the shards of a checkpoint.
struct Bases {
    chain: Vec<Vec<Shard>>,
}

impl Bases {
    /// Finds the counterparts of all shards of `unit` in each base of `chain`, nearest
    /// base first. Returns `None` if there is no base.
    fn find(unit: &Unit, chain: &[Shards]) -> Result<Option<Self>> {
        let chain = chain.iter().map(|base| unit.counterparts(base, "base"));
        let chain: Vec<_> = chain.collect::<Result<_>>()?;
        Ok((!chain.is_empty()).then_some(Self { chain }))
    }

    /// Fetches and restores the base of shard `number`.
    fn open(&self, job: &Job, number: usize) -> Result<BaseFile> {
        let shards: Vec<&Shard> = self.chain.iter().map(|base| &base[number]).collect();
        let fetch = |shard: &&Shard| fetch(job, shard).map(Arc::new);
        BaseFile::restore(&job.quiet(), None, &shards, fetch)
    }
}

/// All shards are inspected before the work begins, remote ones only if their server
/// supports ranges. Each shard is opened or fetched again when the work reaches it, so
/// only one file at a time needs a descriptor or disk space.
struct Files<'a> {
    job: &'a Job<'a>,
    shards: &'a Shards,
    lens_bytes: Vec<u64>,
    indexed: Indexed,
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
    fn open(job: &'a Job<'a>, shards: &'a Shards) -> Result<Self> {
        let files = shards.files();
        let are_remote = files.iter().map(|shard| shard.location.is_remote());
        let at_once = parallel::at_once(are_remote, FILES_AT_ONCE);
        let engine = job.steady_engine();
        let opened = parallel::run(files.len(), at_once, |number| {
            let shard = &files[number];
            if !shard.location.is_remote() {
                return look(&engine, shard, &*shard.open(&job.http)?);
            }
            let source = shard.location.open_ranged(&job.http)?;
            let looked = source.map(|source| look(&engine, shard, &*source));
            Ok(looked.transpose()?.unwrap_or_default())
        });
        let (mut lens_bytes, mut indexed) = (Vec::new(), Indexed::default());
        for looked in opened? {
            lens_bytes.push(looked.original_len_bytes);
            indexed.add(looked.indexed);
        }
        Ok(Self {
            job,
            shards,
            lens_bytes,
            indexed,
        })
    }

    /// Returns the known number of bytes of work on all shards.
    fn len_bytes(&self) -> u64 {
        self.lens_bytes.iter().sum()
    }

    fn fetch(&mut self, number: usize) -> Result<Local> {
        let shard = &self.shards.files()[number];
        let local = fetch(self.job, shard)?;
        if self.lens_bytes[number] == 0 {
            let looked = look(&self.job.engine, shard, &local)?;
            self.lens_bytes[number] = looked.original_len_bytes;
            self.indexed.add(looked.indexed);
            self.job.begin(self.lens_bytes.iter().sum());
        }
        Ok(local)
    }
}

/// The result of inspecting a shard.
#[derive(Default)]
struct Looked {
    /// Length in bytes of the file that the shard is or restores.
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
        original_len_bytes: catalog.original_len_bytes(),
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
