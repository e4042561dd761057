//! Runs work on the shards of all checkpoints of a folder, with one progress.

use std::path::PathBuf;

use zstn_core::catalog::Kind;
use zstn_core::container::zstn;

use super::Shards;
use super::bases::Bases;
use super::parts::{Indexed, Parts};
use super::plan::{Plan, Unit};
use crate::delta::BaseFile;
use crate::source::{HttpOptions, Local};
use crate::{Engine, Progress, Result};

/// The engine, options and progress for work on shards.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub engine: &'a Engine,
    /// Options for requests to all addresses.
    pub http: &'a HttpOptions,
    /// The approximate limit for memory, in bytes.
    pub memory_bytes: u64,
    pub progress: &'a dyn Progress,
}

/// All checkpoints of a plan, opened, with their bases if they have any.
pub(super) struct Work<'a> {
    context: Context<'a>,
    units: Vec<(&'a Unit<'a>, Option<Bases>, Parts<'a>)>,
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
    pub(super) progress: &'a dyn Progress,
    bases: Option<&'a Bases>,
    context: Context<'a>,
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

    /// Returns the context for the work on this shard.
    pub(super) fn context(&self) -> Context<'_> {
        Context {
            progress: self.progress,
            ..self.context
        }
    }

    /// Returns its base, fetched and restored, if it has one. A shard that was packed
    /// as a container, because no delta could be made of it, has none.
    pub(super) fn base(&self) -> Result<Option<BaseFile>> {
        if self.local.head(4)?.starts_with(&zstn::MAGIC) {
            return Ok(None);
        }
        let open = |bases: &Bases| bases.open(self.context(), self.number);
        self.bases.map(open).transpose()
    }
}

impl<'a> Work<'a> {
    /// Finds the counterparts of all shards in `bases`, opens the shards, and begins
    /// the progress.
    pub(super) fn open(context: Context<'a>, plan: &'a Plan<'a>, bases: &[Shards]) -> Result<Self> {
        let mut units = Vec::new();
        for unit in &plan.units {
            // A container in a folder of deltas has no base.
            let bases = match unit.from {
                Kind::Zstn => None,
                _ => Bases::find(unit, bases)?,
            };
            units.push((unit, bases, Parts::open(context, &unit.shards)?));
        }
        let len_bytes = units.iter().map(|(.., parts)| parts.len_bytes());
        context.progress.begin(len_bytes.sum());
        Ok(Self { context, units })
    }

    /// Runs `work` on the shards sequentially. Returns the results, and the tensors
    /// that the indices list.
    pub(super) fn each<T>(
        self,
        mut work: impl FnMut(CurrentShard) -> Result<T>,
    ) -> Result<(Vec<T>, Indexed)> {
        let (mut results, mut all) = (Vec::new(), Indexed::default());
        for (unit_number, (unit, bases, parts)) in self.units.into_iter().enumerate() {
            let (done, indexed) = parts.each(|number, local, progress| {
                work(CurrentShard {
                    unit,
                    unit_number,
                    number,
                    local,
                    progress,
                    bases: bases.as_ref(),
                    context: self.context,
                })
            })?;
            results.extend(done);
            all.add(indexed);
        }
        Ok((results, all))
    }
}
