//! Packing shard by shard.

use std::path::Path;

use super::Shards;
use super::kind::Kind;
use super::plan::Plan;
use super::report::{Packed, ShardsReport};
use super::work::Work;
use crate::pack::pack_map;
use crate::{Engine, Error, Output, OutputFolder, PackOptions, Result, pack_delta};

/// Packs every shard of `input` into a container of the new folder `target`,
/// or with `bases` into its difference from the shard of the same name in the
/// first of them, and puts the index beside (docs/formats/sharded.md 3). A
/// folder's other files are copied, of those around an index `config.json`.
///
/// The first base may be packed; if its shards are deltas, the second is their
/// base, and so on.
///
/// # Errors
/// An index that its files do not agree with or that could not be restored; a
/// base with other shards; a target that is there and not empty; whatever
/// packing one file refuses. Nothing of the target is left then.
pub fn pack_shards(
    engine: &Engine,
    input: &Shards,
    bases: &[Shards],
    target: &Path,
    options: &PackOptions,
) -> Result<ShardsReport<Packed>> {
    options.check()?;
    if !input.files().is_empty() && input.is_packed() {
        return Err(Error::Usage(format!("{} is packed already", input.place())));
    }
    let kind = match bases {
        [] => Kind::Zstn,
        _ => Kind::Delta,
    };
    let plan = Plan::of_packing(input, kind)?;
    let work = Work::open(engine, &plan, bases, options.progress)?;
    let folder = OutputFolder::create(target)?;
    plan.make_folders(&folder)?;
    let reports = work.each(|shard| {
        let output = Output::create(&folder.path(shard.output()))?;
        let options = PackOptions {
            progress: shard.progress,
            ..*options
        };
        match shard.base(engine, options.memory_bytes)? {
            None => pack_map(engine, shard.map, output, &options).map(Packed::Container),
            Some(base) => pack_delta(engine, shard.map, &base, output, &options).map(Packed::Delta),
        }
    })?;
    plan.write_others(input, &folder)?;
    folder.finish()?;
    Ok(plan.report(reports))
}
