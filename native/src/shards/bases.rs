//! The bases of a sharded checkpoint, one for each shard.

use std::sync::Arc;

use super::parts::fetch;
use super::plan::Unit;
use super::{Context, Shard, Shards};
use crate::Result;
use crate::delta::BaseFile;

/// The shards of every base in a chain that correspond to the shards of a checkpoint.
pub(super) struct Bases {
    chain: Vec<Vec<Shard>>,
}

impl Bases {
    /// Finds the counterparts of all shards of `unit` in each base of `chain`, nearest
    /// base first. Returns `None` if there is no base.
    pub(super) fn find(unit: &Unit, chain: &[Shards]) -> Result<Option<Self>> {
        let chain = chain.iter().map(|base| unit.counterparts(base, "base"));
        let chain: Vec<_> = chain.collect::<Result<_>>()?;
        Ok((!chain.is_empty()).then_some(Self { chain }))
    }

    /// Fetches and restores the base of shard `number`.
    pub(super) fn open(&self, context: Context, number: usize) -> Result<BaseFile> {
        let shards = self.chain.iter().map(|base| &base[number]);
        let maps = shards.map(|shard| fetch(shard, context).map(Arc::new));
        let maps = maps.collect::<Result<_>>()?;
        BaseFile::restore(context.engine, maps, context.memory_bytes, &())
    }
}
