//! The bases of a checkpoint in several files, shard by shard.

use super::parts::{counterparts, fetch};
use super::{Shard, Shards};
use crate::{BaseFile, Native, Progress, Result};

/// For every base of a chain, the shards of it that go with those of a
/// checkpoint.
pub(super) struct Bases<'a> {
    chain: Vec<Vec<&'a Shard>>,
}

impl<'a> Bases<'a> {
    /// Finds the counterparts of all `shards`, for each base of `chain`,
    /// nearest first. `None` if there is no base.
    pub(super) fn find(shards: &Shards, chain: &'a [Shards]) -> Result<Option<Self>> {
        let chain = chain.iter().map(|base| counterparts(shards, base, "base"));
        let chain: Vec<_> = chain.collect::<Result<_>>()?;
        Ok((!chain.is_empty()).then_some(Self { chain }))
    }

    /// The base of shard `number`, fetched and restored.
    pub(super) fn open(
        &self,
        engine: &Native,
        number: usize,
        memory_bytes: u64,
        progress: &dyn Progress,
    ) -> Result<BaseFile> {
        let shards = self.chain.iter().map(|base| base[number]);
        let maps = shards.map(|shard| fetch(shard, progress));
        BaseFile::restore(engine, maps.collect::<Result<_>>()?, memory_bytes, &())
    }
}
