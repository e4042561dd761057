//! The manifests of versions 1.0 to 1.2 (docs/formats/ztensor.md 7).

use alloc::string::String;
use alloc::vec::Vec;

use super::ByteOrder;
use super::cbor::Item;
use super::footer::{ZTensorFooter, ZTensorVersion};
use super::part::{Part, PartCoding};
use super::tensor::ElementType;
use super::tensor::{ManifestTensor, TensorLayout};
use super::v0::{stored_checksum, unknown};
use super::{Manifest, attributes, named, required};
use crate::dtype::Dtype;
use crate::{Result, Rule};

pub(super) fn parse_1_0(
    root: Item,
    footer: &ZTensorFooter,
    manifest: Manifest,
) -> Result<Manifest> {
    parse(root, footer, manifest, "tensors")
}

pub(super) fn parse_1_1(
    root: Item,
    footer: &ZTensorFooter,
    manifest: Manifest,
) -> Result<Manifest> {
    parse(root, footer, manifest, "objects")
}

fn parse<'a>(
    root: Item<'a>,
    footer: &ZTensorFooter,
    mut manifest: Manifest,
    list: &'static str,
) -> Result<Manifest> {
    let mut tensors = None;
    for entry in root.map("the manifest")? {
        let (key, value) = entry?;
        if key == list {
            tensors = Some(value);
        } else if key == "attributes" {
            manifest.attributes = attributes(value)?;
        }
    }
    manifest.tensors = named(required(tensors, list, root)?, list, |name, item| {
        tensor(name, item, footer)
    })?;
    Ok(manifest)
}

fn tensor(name: &str, item: Item, footer: &ZTensorFooter) -> Result<ManifestTensor> {
    let (mut shape, mut format, mut dtype, mut components) = (None, None, None, None);
    let mut fields = Vec::new();
    for entry in item.map("a tensor")? {
        let (key, value) = entry?;
        match key {
            "shape" => shape = Some(value.shape(key)?),
            "format" => format = Some(value.text(key)?),
            "dtype" if footer.version == ZTensorVersion::V1_0 => dtype = Some(value.text(key)?),
            "components" => components = Some(value),
            "attributes" => fields = attributes(value)?,
            _ => {}
        }
    }
    let dtype = match footer.version {
        ZTensorVersion::V1_0 => Some(ElementType::long(required(dtype, "dtype", item)?)?),
        _ => None,
    };
    let parts = required(components, "components", item)?
        .map("components")?
        .map(|entry| {
            let (role, item) = entry?;
            component(role, item, dtype, footer).map_err(|error| error.at(item.offset()))
        })
        .collect::<Result<_>>()?;
    Ok(ManifestTensor {
        name: name.into(),
        shape: required(shape, "shape", item)?,
        layout: match required(format, "format", item)? {
            "dense" => TensorLayout::Dense,
            "sparse_csr" => TensorLayout::Csr,
            "sparse_coo" => TensorLayout::Coo,
            other => TensorLayout::Other(other.into()),
        },
        parts,
        fields,
        version: footer.version,
    })
}

/// Parses a component. `tensor_element` is the element type of the whole tensor
/// in version 1.0, where it applies only to the values.
fn component(
    role: &str,
    item: Item,
    tensor_element: Option<ElementType>,
    footer: &ZTensorFooter,
) -> Result<Part> {
    let (mut dtype, mut logical, mut offset, mut length) = (None, None, None, None);
    let (mut decoded_len, mut encoding, mut digest) = (None, None, None);
    for entry in item.map("a component")? {
        let (key, value) = entry?;
        match key {
            "dtype" => dtype = Some(value.text(key)?),
            "type" => logical = Some(value.text(key)?),
            "offset" => offset = Some(value.unsigned(key)?),
            "length" => length = Some(value.unsigned(key)?),
            "uncompressed_length" => decoded_len = Some(value.unsigned(key)?),
            "encoding" => encoding = Some(value.text(key)?),
            "digest" => digest = Some(value.text(key)?),
            _ => {}
        }
    }
    Ok(Part {
        role: String::from(role),
        element: match tensor_element {
            Some(element) if ["data", "values"].contains(&role) => element,
            Some(_) => ElementType::Dtype(Dtype::U64),
            None => ElementType::short(required(dtype, "dtype", item)?, logical, true)?,
        },
        stored: footer.blob(
            required(offset, "offset", item)?,
            required(length, "length", item)?,
        )?,
        coding: match encoding {
            None | Some("raw") => PartCoding::Raw(ByteOrder::Little),
            Some("zstd") => PartCoding::Zstd,
            Some(other) => return Err(unknown(Rule::ZTensorEncoding, "encoding", other)),
        },
        decoded_len_bytes: decoded_len,
        checksum: digest.and_then(stored_checksum),
        shard: None,
        unknown_type: None,
        unknown_encoding: None,
    })
}
