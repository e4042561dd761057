//! Packs a checkpoint shard by shard.

use zstn_core::catalog::Kind;

use super::plan::Plan;
use super::work::Work;
use super::{BASES, Context, Shards};
use crate::delta::pack_delta;
use crate::output::{FolderPlace, OutputFolder};
use crate::pack::{PackOptions, breaks_rules, pack_file};
use crate::report::PackReport;
use crate::{Engine, Error, Result};

/// Packs every shard of `input` into a container in the new folder `target`; with a
/// base, into the delta from the base's shard of the same name. The index is written to
/// the same folder (docs/formats/sharded.md 3). If the input is a folder, its other
/// files are copied; if it is an index, `config.json` is.
///
/// A file in the folder that cannot be packed, such as an index that could not be
/// restored, is copied like the other files.
///
/// # Errors
/// An index named by the caller that could not be restored; a base with other shards; a
/// target that exists and is not empty; every error of packing a single file. After an
/// error, nothing of the target is left.
pub fn pack_shards(
    engine: &Engine,
    input: &Shards,
    target: &FolderPlace,
    options: &PackOptions,
) -> Result<PackReport> {
    options.check()?;
    if !input.files().is_empty() && input.is_packed() {
        let location = input.location();
        return Err(Error::Usage(format!("{location} is packed already")));
    }
    let bases = Shards::open_counterparts(&options.bases, BASES, &options.http)?;
    let kind = match bases[..] {
        [] => Kind::Zstn,
        _ => Kind::Delta,
    };
    let plan = Plan::of_packing(input, kind, &options.http)?;
    let context = Context {
        engine,
        http: &options.http,
        memory_bytes: options.memory_bytes,
        progress: options.progress,
    };
    let work = Work::open(context, &plan, &bases)?;
    let mut folder = OutputFolder::create(target, &options.http)?;
    plan.make_folders(input, &mut folder)?;
    let done = work.each(|shard| {
        let output = folder.file(&shard.output())?;
        let options = options.clone().progress(shard.progress);
        let base = match options.bases.is_empty() || breaks_rules(shard.local)? {
            true => None,
            false => shard.base()?,
        };
        let mut file = match base {
            None => pack_file(engine, shard.local, output, &options),
            Some(base) => pack_delta(engine, shard.local, &base, output, &options),
        }?;
        file.input = shard.input();
        file.output = Some(shard.output());
        Ok(file)
    });
    let written = done.and_then(|(files, indexed)| {
        let copied_bytes = plan.write_others(input, &folder)?;
        context.progress.publishing()?;
        Ok((files, indexed, copied_bytes))
    });
    let (files, indexed, copied_bytes) = folder.end(written)?;
    Ok(PackReport {
        files,
        folder: Some(plan.into_report(copied_bytes, indexed.missing)),
    })
}
