//! Verifying shard by shard.

use super::Shards;
use super::kind::Kind;
use super::parts::fetch;
use super::plan::Plan;
use super::report::ShardsVerified;
use super::work::Work;
use crate::{Engine, Error, Progress, Result};

/// Verifies every shard of `input`, deltas with the first of the `bases`, as
/// [`crate::unpack_shards`] does, and looks for every tensor of the index in
/// its file. With `original` compares every byte of its shards and of its
/// index; other files are not looked at.
///
/// # Errors
/// An index that its files do not agree with; a base that is missing, not
/// wanted or has other shards; an original that differs; whatever verifying
/// one file refuses.
pub fn verify_shards(
    engine: &Engine,
    input: &Shards,
    bases: &[Shards],
    original: Option<&Shards>,
    progress: &dyn Progress,
) -> Result<ShardsVerified> {
    let plan = Plan::of_unpacking(input)?;
    plan.check_bases(input, bases)?;
    let mut originals = Vec::new();
    for unit in &plan.units {
        let found = original.map(|original| unit.counterparts(original, "original"));
        originals.push(found.transpose()?);
    }
    if let Some(original) = original {
        check_index(input, original)?;
    }
    let work = Work::open(engine, &plan, bases, progress)?;
    let mut names = Vec::new();
    let (reports, indexed_tensors) = work.each_counted(|shard| {
        let own = &shard.unit.shards.files()[shard.number];
        let name = shard.unit.folder.join(&own.name).display().to_string();
        let original = originals[shard.unit_number].as_ref();
        let original = original.map(|files| fetch(&files[shard.number], shard.progress));
        let original = original.transpose()?;
        names.push(name);
        match &shard.base(engine, u64::MAX)? {
            None => crate::verify(engine, shard.map, original.as_ref(), shard.progress),
            Some(base) => {
                crate::verify_delta(engine, shard.map, base, original.as_ref(), shard.progress)
            }
        }
    })?;
    Ok(ShardsVerified {
        shards: names
            .into_iter()
            .zip(reports.into_iter().flatten())
            .collect(),
        indexed_tensors,
    })
}

/// Compares what the index will be restored to with the original's, if both
/// have one.
fn check_index(input: &Shards, original: &Shards) -> Result<()> {
    let (Some(index), Some(truth)) = (input.index(), original.index()) else {
        return Ok(());
    };
    let restored = Kind::of_packed(input)?.renamed_index(index, Kind::Safetensors)?;
    if restored.text == truth.text {
        return Ok(());
    }
    Err(Error::Differs {
        detail: format!("the index {} differs from {}", index.place, truth.place),
    })
}
