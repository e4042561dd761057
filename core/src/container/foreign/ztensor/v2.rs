//! The manifest of version 2 (docs/formats/ztensor.md 8.2, 8.3).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::ByteOrder;
use super::cbor::Item;
use super::checksum::{Checksum, Covers, PartDigest};
use super::footer::{ZTensorFooter, ZTensorVersion};
use super::part::{Part, PartCoding};
use super::shard::{self, Shard};
use super::tensor::{ElementType, ManifestTensor, TensorLayout};
use super::v0::unknown;
use super::{Field, Manifest, attributes, named, required};
use crate::dtype::Dtype;
use crate::tensor::element_count;
use crate::{Error, Result, Rule};

/// The shards of a file by their names.
type ShardTable<'a> = BTreeMap<&'a str, &'a Shard>;

const MAX_RANK: usize = 64;
const NAME_LEN_BYTES: Range<usize> = 1..1025;

pub(super) fn parse(
    root: Item,
    footer: &ZTensorFooter,
    mut manifest: Manifest,
) -> Result<Manifest> {
    let mut objects = None;
    for entry in root.map("the manifest")? {
        let (key, value) = entry?;
        match key {
            "objects" => objects = Some(value),
            "attributes" => manifest.attributes = checked_attributes(value)?,
            "shards" => manifest.shards = shard::parse(value)?,
            _ => {}
        }
    }
    let objects = required(objects, "objects", root)?;
    let shards = &manifest.shards;
    let shards: ShardTable = shards.iter().map(|shard| (&*shard.name, shard)).collect();
    manifest.tensors = named(objects, "objects", |name, item| {
        check_name(name)?;
        let tensor = tensor(name, item, footer, &shards)?;
        check_parts(&tensor)?;
        Ok(tensor)
    })?;
    check_disjoint(&manifest.tensors, footer)?;
    Ok(manifest)
}

/// Returns the entries of a map of attributes, whose keys obey the rule for
/// names. Keys inside values are free.
fn checked_attributes(item: Item) -> Result<Vec<Field>> {
    let fields = attributes(item)?;
    for field in &fields {
        check_name(field.name()).map_err(|error| error.at(item.offset()))?;
    }
    Ok(fields)
}

fn check_name(name: &str) -> Result<()> {
    if NAME_LEN_BYTES.contains(&name.len()) && !name.contains('\0') {
        return Ok(());
    }
    Err(Error::malformed(
        Rule::ZTensorName,
        format!(
            "a name of {} bytes is too long, empty or contains a zero byte",
            name.len()
        ),
    ))
}

fn tensor(
    name: &str,
    item: Item,
    footer: &ZTensorFooter,
    shards: &ShardTable,
) -> Result<ManifestTensor> {
    let (mut shape, mut layout, mut parts) = (None, None, None);
    let mut fields = Vec::new();
    for entry in item.map("a tensor")? {
        let (key, value) = entry?;
        match key {
            "shape" => shape = Some(value.shape(key)?),
            "layout" => layout = Some(value.text(key)?),
            "parts" => parts = Some(value),
            "attributes" => fields = checked_attributes(value)?,
            _ => {}
        }
    }
    Ok(ManifestTensor {
        name: name.into(),
        shape: required(shape, "shape", item)?,
        layout: match required(layout, "layout", item)? {
            "dense" => TensorLayout::Dense,
            "zt.sparse_csr/1" => TensorLayout::Csr,
            "zt.sparse_coo/1" => TensorLayout::Coo,
            other => TensorLayout::Other(other.into()),
        },
        parts: required(parts, "parts", item)?
            .map("parts")?
            .map(|entry| {
                let (role, item) = entry?;
                part(role, item, footer, shards).map_err(|error| error.at(item.offset()))
            })
            .collect::<Result<_>>()?,
        fields,
        version: ZTensorVersion::V2,
    })
}

fn part(role: &str, item: Item, footer: &ZTensorFooter, shards: &ShardTable) -> Result<Part> {
    check_name(role)?;
    let (mut dtype, mut logical, mut blob, mut shard) = (None, None, None, None);
    let (mut decoded_len, mut encoding, mut digest) = (None, None, None);
    for entry in item.map("a part")? {
        let (key, value) = entry?;
        match key {
            "dtype" => dtype = Some(value.text(key)?),
            "type" => logical = Some(value.text(key)?),
            "blob" => blob = Some(value.unsigned_array(key)?),
            "shard" => shard = Some(value.text(key)?),
            "encoding" => encoding = Some(value.text(key)?),
            "decoded_length" => decoded_len = Some(value.unsigned(key)?),
            "digest" => digest = Some(value.text(key)?),
            _ => {}
        }
    }
    let field = |detail: &'static str| Error::malformed(Rule::ZTensorField, detail);
    let [offset, len_bytes] = required(blob, "blob", item)?[..] else {
        return Err(field("`blob` must be an offset and a length"));
    };
    let shard = match shard {
        None => None,
        Some(name) => Some(
            *shards
                .get(name)
                .ok_or_else(|| field("the part is in a shard that is not listed"))?,
        ),
    };
    if encoding.is_some() != decoded_len.is_some() {
        return Err(field("`encoding` and `decoded_length` must occur together"));
    }
    let dtype = required(dtype, "dtype", item)?;
    let unknown_type = logical.filter(|name| !ElementType::is_logical(name));
    let logical = logical.filter(|_| unknown_type.is_none());
    let is_known_encoding = encoding.is_none_or(|name| name == "zt.zstd-seekable/1");
    Ok(Part {
        role: String::from(role),
        element: ElementType::short(dtype, logical, false)?,
        stored: match shard {
            None => footer.blob(offset, len_bytes)?,
            Some(shard) => shard.blob(offset, len_bytes)?,
        },
        coding: match encoding {
            None => PartCoding::Raw(ByteOrder::Little),
            Some(_) => PartCoding::SeekableZstd,
        },
        decoded_len_bytes: Some(decoded_len.unwrap_or(len_bytes)),
        checksum: match digest {
            None => None,
            Some(text) => Some(Checksum {
                digest: PartDigest::parse_decoded(text)
                    .ok_or_else(|| unknown(Rule::ZTensorChecksumText, "digest", text))?,
                covers: Covers::Decoded,
            }),
        },
        shard: shard.map(|shard| shard.name.clone()),
        unknown_type: unknown_type.map(String::from),
        unknown_encoding: encoding.filter(|_| !is_known_encoding).map(String::from),
    })
}

/// Checks that a tensor has the parts of its layout, with the right lengths as
/// far as they are known.
fn check_parts(tensor: &ManifestTensor) -> Result<()> {
    let bad = |detail| Err(Error::malformed(Rule::ZTensorLayout, detail));
    if tensor.shape.len() > MAX_RANK {
        return bad("the tensor has more than 64 dimensions");
    }
    if tensor.parts.is_empty() {
        return bad("the tensor has no parts");
    }
    let roles: &[&str] = match tensor.layout {
        TensorLayout::Dense => &["data"],
        TensorLayout::Csr => &["values", "indices", "indptr"],
        TensorLayout::Coo => &["values", "coords"],
        _ => return Ok(()),
    };
    if tensor.parts.len() != roles.len() {
        return bad("the parts of the tensor do not match its layout");
    }
    for role in roles {
        tensor.required(role)?;
    }
    let index_part = |role| tensor.part(role).filter(|part| part.unknown_type.is_none());
    let index_type = |role| match index_part(role).map(|part| part.element) {
        Some(ElementType::Dtype(dtype @ (Dtype::U32 | Dtype::U64))) => Some(dtype),
        _ => None,
    };
    match tensor.layout {
        TensorLayout::Dense => {
            let count = element_count(&tensor.shape);
            tensor.required("data")?.check_len(count)?;
        }
        TensorLayout::Csr if tensor.shape.len() != 2 => {
            return bad("compressed rows need two dimensions");
        }
        TensorLayout::Csr
            if index_type("indices").is_none() || index_type("indices") != index_type("indptr") =>
        {
            return bad("indices and row pointers must be both u32 or both u64");
        }
        TensorLayout::Csr => {
            let rows = tensor.shape.first().copied().unwrap_or(0);
            tensor.required("indptr")?.check_len(rows.checked_add(1))?;
            let count = tensor.required("indices")?.element_count();
            tensor.required("values")?.check_len(count)?;
        }
        TensorLayout::Coo if index_type("coords").is_none() => {
            return bad("coordinates must be u32 or u64");
        }
        TensorLayout::Coo => {
            // A scalar has no coordinates, whatever the number of its values.
            let rank = tensor.shape.len() as u64;
            let coordinates = tensor.required("coords")?;
            if rank > 0 {
                let count = coordinates.element_count();
                let count = count.filter(|count| count.is_multiple_of(rank));
                tensor
                    .required("values")?
                    .check_len(count.map(|count| count / rank))?;
            } else {
                coordinates.check_len(Some(0))?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Fails if blobs of the same file overlap without being identical.
fn check_disjoint(tensors: &[ManifestTensor], footer: &ZTensorFooter) -> Result<()> {
    let parts = tensors.iter().flat_map(|tensor| &tensor.parts);
    let places = parts.map(|part| (part.shard.as_deref(), &part.stored));
    let places: BTreeSet<_> = places
        .chain([(None, &footer.manifest)])
        .filter(|(_, stored)| !stored.is_empty())
        .map(|(shard, stored)| (shard, stored.start, stored.end))
        .collect();
    let (mut file, mut covered) = (None, 0);
    for (shard, start, end) in places {
        if shard != file {
            (file, covered) = (shard, 0);
        }
        if start < covered {
            return Err(match shard {
                None => Error::malformed(Rule::ZTensorPlace, "parts of tensors overlap").at(start),
                Some(shard) => Error::malformed(
                    Rule::ZTensorPlace,
                    format!("parts of tensors overlap at byte {start} of the shard `{shard}`"),
                ),
            });
        }
        covered = end;
    }
    Ok(())
}
