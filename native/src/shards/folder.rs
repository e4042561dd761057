//! Packs and unpacks a checkpoint shard by shard into a folder.

use zstn_core::catalog::FileKind;

use super::plan::Plan;
use super::work::{CurrentShard, Work};
use super::{BASES, Shards};
use crate::output::{FolderPlace, OutputFolder};
use crate::pack::{PackOptions, Plain, breaks_rules, check_kind, pack_file, pack_original};
use crate::report::{FolderReport, PackReport, PackedFile, UnpackReport};
use crate::source::Source as _;
use crate::unpack::unpack_file;
use crate::{Error, Job, Output, Progress as _, Result};

/// Packs every shard of `input` into a container in the new folder `target`; with a
/// base, into the delta from the base's file of the same name or, if the base is sharded
/// differently, from all of its files. The index is written to the same folder
/// (docs/formats/sharded.md 3). If the input is a folder, its model files of other formats
/// are packed without a base, and its other files are copied; if it is an index, the
/// `config.json` in its folder is copied.
///
/// A file in the folder that cannot be packed, such as an index that could not be
/// restored, is copied like the other files.
///
/// # Errors
/// An index named by the caller that could not be restored; a base without counterparts
/// to the checkpoints in subfolders; a target that exists and is not empty; every error of
/// packing a single file. After an error, nothing of the target is left.
pub(crate) fn pack_shards(
    job: &Job,
    input: &Shards,
    target: &FolderPlace,
    options: &PackOptions,
) -> Result<PackReport> {
    if !input.files().is_empty() && input.is_packed() {
        let location = input.location();
        return Err(Error::Usage(format!("{location} is already packed")));
    }
    let bases = Shards::open_counterparts(&options.bases, BASES, &job.http)?;
    let kind = match bases[..] {
        [] => FileKind::Zstn,
        _ => FileKind::Delta,
    };
    let plan = Plan::of_packing(input, kind, &job.http)?;
    let is_arriving = options.can_arrive();
    let write = |shard: &CurrentShard, output: Output| {
        let mut file = match shard.unit.is_original {
            true => pack_original(shard.job, shard.local, &[], output, options)?,
            false => pack_shard(shard, output, options)?,
        };
        file.input = shard.input();
        file.output = Some(shard.output());
        Ok(file)
    };
    let (files, folder) = write_folder(job, input, plan, &bases, target, is_arriving, write)?;
    Ok(PackReport {
        files,
        folder: Some(folder),
    })
}

fn pack_shard(shard: &CurrentShard, output: Output, options: &PackOptions) -> Result<PackedFile> {
    check_kind(shard.local, Some(shard.local.len_bytes()))?;
    let base = match options.bases.is_empty() || breaks_rules(shard.local)? {
        true => None,
        false => shard.base_for_packing(options.container.encode.is_extended())?,
    };
    let plain = Plain {
        input: shard.local,
        arriving: shard.arriving,
    };
    pack_file(shard.job, plain, base.as_ref(), output, options)
}

/// Restores the files that `input` was packed from into the new folder `target`, byte
/// for byte. Deltas are restored with the first of the `bases`, against which they were
/// packed. If the input is a folder, its other files are copied; if it is an index, the
/// `config.json` in its folder is copied.
///
/// # Errors
/// An index that names a missing file; a base that is missing, not needed or not the
/// deltas' own; a target that exists and is not empty; every error of unpacking a single
/// file. After an error, nothing of the target is left.
pub(crate) fn unpack_shards(
    job: &Job,
    input: &Shards,
    bases: &[Shards],
    target: &FolderPlace,
) -> Result<UnpackReport> {
    let plan = Plan::of_unpacking(input, &job.http)?;
    plan.check_bases(input, bases)?;
    let write = |shard: &CurrentShard, output: Output| {
        let base = shard.base()?;
        let mut file = unpack_file(shard.job, shard.local, base.as_deref(), output)?;
        file.input = shard.input();
        file.output = Some(shard.output());
        Ok(file)
    };
    let (files, folder) = write_folder(job, input, plan, bases, target, false, write)?;
    Ok(UnpackReport {
        files,
        folder: Some(folder),
    })
}

/// Writes the result of `plan` into the new folder `target`. `write` writes the result
/// of one shard; if `is_arriving`, remote shards are still arriving then. Returns the
/// results of all calls of `write`, and the report about the other files.
fn write_folder<T: Send>(
    job: &Job,
    input: &Shards,
    plan: Plan<'_>,
    bases: &[Shards],
    target: &FolderPlace,
    is_arriving: bool,
    write: impl Fn(&CurrentShard, Output) -> Result<T> + Sync,
) -> Result<(Vec<T>, FolderReport)> {
    let work = Work::open(job, &plan, bases)?.while_arriving(is_arriving);
    let mut folder = OutputFolder::create(target, &job.http)?;
    plan.make_folders(input, &mut folder)?;
    let done = work.each(|shard| write(&shard, folder.file(&shard.output())?));
    let written = done.and_then(|(files, indexed)| {
        let copied_bytes = plan.write_others(input, &folder)?;
        job.publishing()?;
        Ok((files, indexed, copied_bytes))
    });
    let (files, indexed, copied_bytes) = folder.end(written)?;
    Ok((files, plan.into_report(copied_bytes, indexed.missing)))
}
