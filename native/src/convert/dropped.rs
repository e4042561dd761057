//! Finds metadata that a conversion drops.

use std::collections::BTreeSet;

use zstn_core::catalog::Kind;
use zstn_core::container::foreign::ztensor::{FOOTER_BYTES, Field, Manifest, ZTensorFooter};

use super::TargetKind;
use super::conversion::Conversion;
use crate::{Error, Result};

/// Returns the keys of metadata that `target` cannot store.
pub fn keys(conversion: &Conversion, target: TargetKind) -> Result<BTreeSet<String>> {
    let mut keys = BTreeSet::new();
    if conversion.kind() == Kind::ZTensor {
        keys = custom_keys(conversion)?;
    }
    if matches!(target, TargetKind::ZTensor | TargetKind::Gauss) {
        keys.extend(conversion.reader.metadata().keys().cloned());
    }
    Ok(keys)
}

/// Returns the keys of a zTensor file that safetensors metadata cannot store: the keys
/// of single tensors, and those whose values are not texts.
fn custom_keys(conversion: &Conversion) -> Result<BTreeSet<String>> {
    let refuse = Error::place(conversion.input);
    let source = conversion.input.open(&conversion.options.http)?;
    let len_bytes = source.len_bytes();
    let head = source.read(0..len_bytes.min(8))?;
    let tail = source.read(len_bytes.saturating_sub(FOOTER_BYTES)..len_bytes)?;
    let footer = ZTensorFooter::parse(&head, &tail, len_bytes).map_err(&refuse)?;
    let manifest = source.read(footer.manifest.clone())?;
    let manifest = Manifest::parse(&manifest, &footer).map_err(&refuse)?;
    let name = |field: &Field| field.name().to_owned();
    let own = manifest.tensors.iter().flat_map(|tensor| &tensor.fields);
    let metadata = conversion.reader.metadata();
    let of_file = manifest.attributes.iter().map(name);
    let of_file = of_file.filter(|key| !metadata.contains_key(key));
    Ok(own.map(name).chain(of_file).collect())
}
