//! Going through the shards of all checkpoints of a folder, as one piece of
//! work.

use std::path::PathBuf;

use zstn_core::catalog::Kind;

use super::Shards;
use super::bases::Bases;
use super::parts::Parts;
use super::plan::{Plan, Unit};
use crate::delta::BaseFile;
use crate::source::Map;
use crate::{Engine, Progress, Result};

/// All checkpoints of a plan, opened, with the bases of those that have some.
pub(super) struct Work<'a> {
    units: Vec<(&'a Unit<'a>, Option<Bases>, Parts<'a>)>,
}

/// A shard whose turn it is.
pub(super) struct CurrentShard<'a> {
    pub(super) unit: &'a Unit<'a>,
    /// Number of its checkpoint in the plan.
    pub(super) unit_number: usize,
    /// Its own number in that checkpoint.
    pub(super) number: usize,
    /// Its bytes.
    pub(super) map: &'a Map,
    pub(super) progress: &'a dyn Progress,
    bases: Option<&'a Bases>,
}

impl CurrentShard<'_> {
    /// Where its result goes, relative to the folder of all.
    pub(super) fn output(&self) -> PathBuf {
        self.unit.output(self.number)
    }

    /// Path of the file it is made from, relative to the folder of all.
    pub(super) fn input(&self) -> String {
        let file = &self.unit.shards.files()[self.number];
        self.unit.folder.join(&file.name).display().to_string()
    }

    /// Its base, fetched and restored, if it has one.
    pub(super) fn base(&self, engine: &Engine, memory_bytes: u64) -> Result<Option<BaseFile>> {
        let open = |bases: &Bases| bases.open(engine, self.number, memory_bytes, self.progress);
        self.bases.map(open).transpose()
    }
}

impl<'a> Work<'a> {
    /// Finds the counterparts of all shards in `bases`, opens the shards, and
    /// begins.
    pub(super) fn open(
        engine: &'a Engine,
        plan: &'a Plan<'a>,
        bases: &[Shards],
        progress: &'a dyn Progress,
    ) -> Result<Self> {
        let mut units = Vec::new();
        for unit in &plan.units {
            // What is packed by itself in a folder of deltas has no base.
            let bases = match unit.from {
                Kind::Zstn => None,
                _ => Bases::find(unit, bases)?,
            };
            units.push((unit, bases, Parts::open(engine, &unit.shards, progress)?));
        }
        let len_bytes = units.iter().map(|(.., parts)| parts.len_bytes());
        progress.begin(len_bytes.sum());
        Ok(Self { units })
    }

    /// Does the work on one shard after the other. Returns the results, and the
    /// number of tensors that the indices name, all of which were found.
    pub(super) fn each<T>(
        self,
        mut work: impl FnMut(CurrentShard) -> Result<T>,
    ) -> Result<(Vec<T>, usize)> {
        let (mut results, mut indexed_tensors) = (Vec::new(), 0);
        for (unit_number, (unit, bases, parts)) in self.units.into_iter().enumerate() {
            let (done, indexed) = parts.each(|number, map, progress| {
                work(CurrentShard {
                    unit,
                    unit_number,
                    number,
                    map,
                    progress,
                    bases: bases.as_ref(),
                })
            })?;
            results.extend(done);
            indexed_tensors += indexed;
        }
        Ok((results, indexed_tensors))
    }
}
