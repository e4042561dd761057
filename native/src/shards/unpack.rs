//! Unpacks a checkpoint shard by shard.

use super::plan::Plan;
use super::work::Work;
use super::{Context, Shards};
use crate::Result;
use crate::delta::unpack_delta;
use crate::output::{FolderPlace, OutputFolder};
use crate::report::UnpackReport;
use crate::unpack::unpack_file;

/// Restores the files that `input` was packed from into the new folder `target`, byte
/// for byte. Deltas are restored with the first of the `bases`, against which they were
/// packed. If the input is a folder, its other files are copied; if it is an index,
/// `config.json` is.
///
/// # Errors
/// An index that names a missing file; a base that is missing, not needed or has other
/// shards; a target that exists and is not empty; every error of unpacking a single
/// file. After an error, nothing of the target is left.
pub fn unpack_shards(
    context: Context,
    input: &Shards,
    bases: &[Shards],
    target: &FolderPlace,
) -> Result<UnpackReport> {
    let (engine, memory_bytes) = (context.engine, context.memory_bytes);
    let plan = Plan::of_unpacking(input, context.http)?;
    plan.check_bases(input, bases)?;
    let work = Work::open(context, &plan, bases)?;
    let mut folder = OutputFolder::create(target, context.http)?;
    plan.make_folders(input, &mut folder)?;
    let done = work.each(|shard| {
        let output = folder.file(&shard.output())?;
        let (local, progress) = (shard.local, shard.progress);
        let mut file = match shard.base()? {
            None => unpack_file(engine, local, output, memory_bytes, progress),
            Some(base) => unpack_delta(engine, local, &base, output, memory_bytes, progress),
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
    Ok(UnpackReport {
        files,
        folder: Some(plan.into_report(copied_bytes, indexed.missing)),
    })
}
