//! The bases of a checkpoint in several files, shard by shard.

use std::sync::Arc;

use super::parts::fetch;
use super::plan::Unit;
use super::{Shard, Shards};
use crate::delta::BaseFile;
use crate::{Engine, Progress, Result};

/// For every base of a chain, the shards of it that go with those of a
/// checkpoint.
pub(super) struct Bases {
    chain: Vec<Vec<Shard>>,
}

impl Bases {
    /// Finds the counterparts of all shards of `unit`, for each base of
    /// `chain`, nearest first. Returns `None` if there is no base.
    pub(super) fn find(unit: &Unit, chain: &[Shards]) -> Result<Option<Self>> {
        let chain = chain.iter().map(|base| unit.counterparts(base, "base"));
        let chain: Vec<_> = chain.collect::<Result<_>>()?;
        Ok((!chain.is_empty()).then_some(Self { chain }))
    }

    /// The base of shard `number`, fetched and restored.
    pub(super) fn open(
        &self,
        engine: &Engine,
        number: usize,
        memory_bytes: u64,
        progress: &dyn Progress,
    ) -> Result<BaseFile> {
        let shards = self.chain.iter().map(|base| &base[number]);
        let maps = shards.map(|shard| fetch(shard, progress).map(Arc::new));
        BaseFile::restore(engine, maps.collect::<Result<_>>()?, memory_bytes, &())
    }
}
