//! Unpacking shard by shard.

use std::path::Path;

use super::Shards;
use super::plan::Plan;
use super::report::ShardsReport;
use super::work::Work;
use crate::unpack::unpack_map;
use crate::{Engine, Output, OutputFolder, Progress, Result, UnpackReport, unpack_delta};

/// Restores the files that `input` was packed from as the new folder `target`,
/// byte for byte; deltas with the first of the `bases`, which they were packed
/// against. That one may be packed; if its shards are deltas, the second is
/// their base, and so on. A folder's other files are copied, of those around an
/// index `config.json`.
///
/// # Errors
/// An index that its files do not agree with; a base that is missing, not
/// wanted or has other shards; a target that is there and not empty; whatever
/// unpacking one file refuses. Nothing of the target is left then.
pub fn unpack_shards(
    engine: &Engine,
    input: &Shards,
    bases: &[Shards],
    target: &Path,
    progress: &dyn Progress,
) -> Result<ShardsReport<UnpackReport>> {
    let plan = Plan::of_unpacking(input)?;
    plan.check_bases(input, bases)?;
    let work = Work::open(engine, &plan, bases, progress)?;
    let folder = OutputFolder::create(target)?;
    plan.make_folders(&folder)?;
    let reports = work.each(|shard| {
        let output = Output::create(&folder.path(shard.output()))?;
        match shard.base(engine, u64::MAX)? {
            None => unpack_map(engine, shard.map, output, shard.progress),
            Some(base) => unpack_delta(engine, shard.map, &base, output, shard.progress),
        }
    })?;
    plan.write_others(input, &folder)?;
    folder.finish()?;
    Ok(plan.report(reports))
}
