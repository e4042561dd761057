//! Verifying shard by shard.

use zstn_core::catalog::Kind;

use super::kind::ShardKind as _;
use super::parts::fetch;
use super::plan::Plan;
use super::work::Work;
use super::{Context, Shards};
use crate::report::VerifyReport;
use crate::verify::{verify_delta, verify_file};
use crate::{Error, Result};

/// Verifies every shard of `input`, deltas with the first of the `bases`, and
/// looks for every tensor of the index in its file. With `original` compares
/// every byte of its shards and of its index; other files are not looked at.
///
/// # Errors
/// An index that its files do not agree with; a base that is missing, not
/// wanted or has other shards; an original that differs; whatever verifying
/// one file refuses.
pub fn verify_shards(
    context: Context,
    input: &Shards,
    bases: &[Shards],
    original: Option<&Shards>,
) -> Result<VerifyReport> {
    let (engine, memory_bytes) = (context.engine, context.memory_bytes);
    let plan = Plan::of_unpacking(input, context.http)?;
    plan.check_bases(input, bases)?;
    let mut originals = Vec::new();
    for unit in &plan.units {
        let found = original.map(|original| unit.counterparts(original, "original"));
        originals.push(found.transpose()?);
    }
    if let Some(original) = original {
        check_index(input, original)?;
    }
    let work = Work::open(context, &plan, bases)?;
    let (files, indexed_tensors) = work.each(|shard| {
        let original = originals[shard.unit_number].as_ref();
        let original = original.map(|files| fetch(&files[shard.number], shard.context()));
        let original = original.transpose()?;
        let (map, original, progress) = (shard.map, original.as_ref(), shard.progress);
        let mut file = match &shard.base()? {
            None => verify_file(engine, map, original, progress),
            Some(base) => verify_delta(engine, map, base, original, memory_bytes, progress),
        }?;
        file.name = shard.input();
        Ok(file)
    })?;
    Ok(VerifyReport {
        files,
        compared: original.is_some(),
        indexed_tensors,
    })
}

/// Compares what the index will be restored to with the original's, if both
/// have one.
fn check_index(input: &Shards, original: &Shards) -> Result<()> {
    let (Some(index), Some(expected)) = (input.index(), original.index()) else {
        return Ok(());
    };
    let restored = Kind::of_packed(input)?.renamed_index(index, Kind::Safetensors)?;
    if restored.text == expected.text {
        return Ok(());
    }
    Err(Error::Differs {
        detail: format!(
            "the index {} differs from {}",
            index.location, expected.location
        ),
    })
}
