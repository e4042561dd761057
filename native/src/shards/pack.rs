//! Packing shard by shard.

use std::path::Path;

use super::bases::Bases;
use super::kind::Kind;
use super::parts::Parts;
use super::plan::Plan;
use super::report::{Packed, ShardsReport};
use super::{PACKED, Shards};
use crate::pack::pack_map;
use crate::{Error, Native, Output, OutputFolder, PackOptions, Result, pack_delta};

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
    engine: &Native,
    input: &Shards,
    bases: &[Shards],
    target: &Path,
    options: &PackOptions,
) -> Result<ShardsReport<Packed>> {
    options.check()?;
    if input.is_packed() {
        return Err(Error::Usage(format!("{} is packed already", input.place())));
    }
    let kind = match bases {
        [] => Kind::Zstn,
        _ => Kind::Delta,
    };
    let plan = Plan::new(input, Kind::Safetensors, kind)?;
    plan.check_found(input, &PACKED)?;
    let bases = Bases::find(input, bases)?;
    let folder = OutputFolder::create(target)?;
    let parts = Parts::open(engine, input, options.progress)?;
    let (reports, _) = parts.each(|number, map, progress| {
        let output = Output::create(&folder.path(&plan.names[number]))?;
        let options = PackOptions {
            progress,
            ..*options
        };
        match &bases {
            None => pack_map(engine, map, output, &options).map(Packed::Container),
            Some(bases) => {
                let base = bases.open(engine, number, options.memory_bytes, progress)?;
                pack_delta(engine, map, &base, output, &options).map(Packed::Delta)
            }
        }
    })?;
    plan.write_others(input, &folder)?;
    folder.finish()?;
    Ok(plan.report(input, reports))
}
