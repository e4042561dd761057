//! The metadata of version 0.1 (docs/formats/ztensor.md 3 to 6).

use alloc::string::ToString;
use alloc::vec::Vec;
use alloc::{format, vec};

use super::ByteOrder;
use super::cbor::Item;
use super::checksum::{Checksum, Covers, PartDigest};
use super::footer::{ZTensorFooter, ZTensorVersion};
use super::part::{Part, PartCoding};
use super::tensor::ElementType;
use super::tensor::{ManifestTensor, TensorLayout};
use super::{Field, Manifest, required};
use crate::{Error, Result, Rule};

pub(super) fn parse(
    root: Item,
    footer: &ZTensorFooter,
    mut manifest: Manifest,
) -> Result<Manifest> {
    for item in root.array("the metadata")? {
        let tensor = tensor(item, footer).map_err(|error| error.at(item.offset()))?;
        manifest.tensors.push(tensor);
    }
    Ok(manifest)
}

fn tensor(item: Item, footer: &ZTensorFooter) -> Result<ManifestTensor> {
    let (mut name, mut offset, mut size, mut dtype) = (None, None, None, None);
    let (mut layout, mut shape, mut encoding) = (None, None, None);
    let (mut order, mut checksum) = (None, None);
    let mut fields = Vec::new();
    for entry in item.map("a tensor")? {
        let (key, value) = entry?;
        match key {
            "name" => name = Some(value.text(key)?),
            "offset" => offset = Some(value.unsigned(key)?),
            "size" => size = Some(value.unsigned(key)?),
            "dtype" => dtype = Some(value.text(key)?),
            "layout" => layout = Some(value.text(key)?),
            "shape" => shape = Some(value.shape(key)?),
            "encoding" => encoding = Some(value.text(key)?),
            "data_endianness" => order = Some(value.text(key)?),
            "checksum" => checksum = Some(value.text(key)?),
            _ => fields.push(Field::checked(key, value)),
        }
    }
    let name = required(name, "name", item)?;
    let refuse = |error: Error| error.tensor(name);
    let missing = |key| required(None, key, item).map_err(refuse);
    let part = Part {
        role: "data".to_string(),
        element: match dtype {
            Some(dtype) => ElementType::long(dtype).map_err(refuse)?,
            None => return missing("dtype"),
        },
        stored: match (offset, size) {
            (Some(offset), Some(size)) => footer.blob(offset, size).map_err(refuse)?,
            (None, _) => return missing("offset"),
            (_, None) => return missing("size"),
        },
        coding: match encoding {
            Some(encoding) => coding(encoding, order).map_err(refuse)?,
            None => return missing("encoding"),
        },
        decoded_len_bytes: None,
        checksum: checksum.and_then(stored_checksum),
        shard: None,
        unknown_type: None,
        unknown_encoding: None,
    };
    let tensor = ManifestTensor {
        name: name.into(),
        shape: match shape {
            Some(shape) => shape,
            None => return missing("shape"),
        },
        layout: match layout {
            None | Some("dense") => TensorLayout::Dense,
            Some("sparsecoo") => TensorLayout::PackedCoo,
            Some("sparsecsr") => TensorLayout::PackedCsr,
            Some(other) => return Err(refuse(unknown(Rule::ZTensorLayout, "layout", other))),
        },
        parts: vec![part],
        fields,
        version: ZTensorVersion::V0_1,
    };
    tensor.check_size().map_err(refuse)?;
    Ok(tensor)
}

fn coding(encoding: &str, order: Option<&str>) -> Result<PartCoding> {
    let order = match order {
        None | Some("little") => ByteOrder::Little,
        Some("big") => ByteOrder::Big,
        Some(other) => return Err(unknown(Rule::ZTensorEncoding, "byte order", other)),
    };
    match encoding {
        "raw" => Ok(PartCoding::Raw(order)),
        "zstd" => Ok(PartCoding::Zstd),
        other => Err(unknown(Rule::ZTensorEncoding, "encoding", other)),
    }
}

/// Parses a checksum of versions 0.1 and 1. Returns `None` for unknown
/// algorithms, which are ignored.
pub(super) fn stored_checksum(text: &str) -> Option<Checksum> {
    PartDigest::parse_stored(text).map(|digest| Checksum {
        digest,
        covers: Covers::Stored,
    })
}

pub(super) fn unknown(rule: Rule, what: &str, name: &str) -> Error {
    Error::malformed(
        rule,
        format!("the {what} `{}` does not exist", name.escape_default()),
    )
}
