//! Verifying shard by shard.

use super::Shards;
use super::bases::Bases;
use super::kind::Kind;
use super::parts::{Parts, counterparts, fetch};
use super::report::ShardsVerified;
use crate::{Error, Native, Progress, Result};

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
    engine: &Native,
    input: &Shards,
    bases: &[Shards],
    original: Option<&Shards>,
    progress: &dyn Progress,
) -> Result<ShardsVerified> {
    let kind = Kind::of_packed(input)?;
    kind.check_bases(input, bases)?;
    let bases = Bases::find(input, bases)?;
    let originals = original.map(|original| counterparts(input, original, "original"));
    let originals = originals.transpose()?;
    if let Some(original) = original {
        check_index(kind, input, original)?;
    }
    let parts = Parts::open(engine, input, progress)?;
    let (reports, indexed_tensors) = parts.each(|number, map, progress| {
        let original = originals.as_ref().map(|originals| originals[number]);
        let original = original.map(|original| fetch(original, progress));
        let original = original.transpose()?;
        let base = bases
            .as_ref()
            .map(|bases| bases.open(engine, number, u64::MAX, progress))
            .transpose()?;
        match &base {
            None => crate::verify(engine, map, original.as_ref(), progress),
            Some(base) => crate::verify_delta(engine, map, base, original.as_ref(), progress),
        }
    })?;
    let names = input.files().iter().map(|file| file.name.clone());
    Ok(ShardsVerified {
        shards: names.zip(reports).collect(),
        indexed_tensors,
    })
}

/// Compares what the index will be restored to with the original's, if both
/// have one.
fn check_index(kind: Kind, input: &Shards, original: &Shards) -> Result<()> {
    let (Some(index), Some(truth)) = (input.index(), original.index()) else {
        return Ok(());
    };
    let restored = kind.renamed_index(index, Kind::Safetensors)?;
    if restored.text == truth.text {
        return Ok(());
    }
    Err(Error::Differs {
        detail: format!("the index {} differs from {}", index.place, truth.place),
    })
}
