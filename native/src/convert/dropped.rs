//! Metadata that get lost on the way.

use std::collections::BTreeSet;

use zstn_core::catalog::Kind;
use zstn_core::container::foreign::ztensor::{FOOTER_BYTES, Field, Footer, Manifest};

use super::TargetKind;
use super::job::Job;
use crate::{Error, Result};

/// Keys of what the input says besides its tensors and `target` has no place
/// for.
pub fn keys(job: &Job, target: TargetKind) -> Result<BTreeSet<String>> {
    let mut keys = BTreeSet::new();
    if job.kind() == Kind::ZTensor {
        keys = custom_keys(job)?;
    }
    if matches!(target, TargetKind::ZTensor | TargetKind::Gauss) {
        keys.extend(job.reader.metadata().keys().cloned());
    }
    Ok(keys)
}

/// Keys of a zTensor file that have no place in the metadata of safetensors:
/// those of single tensors, and values that are not texts.
fn custom_keys(job: &Job) -> Result<BTreeSet<String>> {
    let refuse = Error::place(job.input);
    let source = job.input.open()?;
    let len_bytes = source.len_bytes();
    let head = source.read(0..len_bytes.min(8))?;
    let tail = source.read(len_bytes.saturating_sub(FOOTER_BYTES)..len_bytes)?;
    let footer = Footer::parse(&head, &tail, len_bytes).map_err(&refuse)?;
    let manifest = source.read(footer.manifest.clone())?;
    let manifest = Manifest::parse(&manifest, &footer).map_err(&refuse)?;
    let name = |field: &Field| field.name().to_owned();
    let own = manifest.tensors.iter().flat_map(|tensor| &tensor.fields);
    let metadata = job.reader.metadata();
    let of_file = manifest.attributes.iter().map(name);
    let of_file = of_file.filter(|key| !metadata.contains_key(key));
    Ok(own.map(name).chain(of_file).collect())
}
