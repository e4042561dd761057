//! Unpacking shard by shard.

use std::path::Path;

use super::Shards;
use super::bases::Bases;
use super::kind::Kind;
use super::parts::Parts;
use super::plan::Plan;
use super::report::ShardsReport;
use crate::unpack::unpack_map;
use crate::{Native, Output, OutputFolder, Progress, Result, UnpackReport, unpack_delta};

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
    engine: &Native,
    input: &Shards,
    bases: &[Shards],
    target: &Path,
    progress: &dyn Progress,
) -> Result<ShardsReport<UnpackReport>> {
    let kind = Kind::of_packed(input)?;
    kind.check_bases(input, bases)?;
    let plan = Plan::new(input, kind, Kind::Safetensors)?;
    let bases = Bases::find(input, bases)?;
    let folder = OutputFolder::create(target)?;
    let parts = Parts::open(engine, input, progress)?;
    let (reports, _) = parts.each(|number, map, progress| {
        let output = Output::create(&folder.path(&plan.names[number]))?;
        match &bases {
            None => unpack_map(engine, map, output, progress),
            Some(bases) => {
                let base = bases.open(engine, number, u64::MAX, progress)?;
                unpack_delta(engine, map, &base, output, progress)
            }
        }
    })?;
    plan.write_others(input, &folder)?;
    folder.finish()?;
    Ok(plan.report(input, reports))
}
