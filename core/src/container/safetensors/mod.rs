//! safetensors headers by the official rules
//! (docs/formats/z4ai-containers.md 1).
//!
//! Only the header is needed: a checkpoint of any size is described by its
//! first bytes. Nothing here looks at tensor data.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::bytes::Cursor;
use crate::dtype::Dtype;
use crate::limits::HEADER_LEN_BYTES;
use crate::{Error, Result, Rule, order};

mod head;
mod json;
mod loose;
mod shards;

pub use head::head;
pub use loose::{LooseTensor, parse as parse_loosely};
pub use shards::{SHARD_INDEX_SUFFIX, ShardIndex};

/// Bytes in front of the header: its length.
pub const PREFIX_BYTES: u64 = 8;

/// One tensor of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Name, with JSON escapes resolved.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Shape, outermost dimension first; empty for a scalar. Of a longer one
    /// than [`crate::limits::DIMENSIONS`], which no catalog accepts, only the
    /// start.
    pub shape: Vec<u64>,
    /// Bytes of the data buffer.
    pub span: Range<u64>,
}

/// A header that keeps all official rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// In data order; tensors of the same span (empty ones) in header order.
    pub tensors: Vec<Tensor>,
    /// `__metadata__`, empty if there is none.
    pub metadata: BTreeMap<String, String>,
}

/// Length of the header, from the first bytes of a file of `file_len_bytes`.
pub fn header_len_bytes(head: &[u8], file_len_bytes: u64) -> Result<u64> {
    if file_len_bytes < PREFIX_BYTES {
        return Err(Error::malformed(
            Rule::SafetensorsTooSmall,
            format!("a file of {file_len_bytes} bytes is too small for safetensors"),
        ));
    }
    let len = Cursor::new(head).u64("header length")?;
    if len > HEADER_LEN_BYTES {
        return Err(Error::malformed(
            Rule::SafetensorsHeaderCap,
            format!("a header of {len} bytes is over the cap of {HEADER_LEN_BYTES}"),
        )
        .at(0));
    }
    if len > file_len_bytes - PREFIX_BYTES {
        return Err(Error::malformed(
            Rule::SafetensorsHeaderLength,
            format!("a header of {len} bytes reaches past the end of the file"),
        )
        .at(0));
    }
    Ok(len)
}

impl Header {
    /// Reads the header `json` of a file whose data buffer is `data_len_bytes`
    /// long.
    pub fn parse(json: &[u8], data_len_bytes: u64) -> Result<Self> {
        if json.len() as u64 > HEADER_LEN_BYTES {
            return Err(Error::malformed(
                Rule::SafetensorsHeaderCap,
                format!("a header of {} bytes is over the cap", json.len()),
            ));
        }
        let json::Document { metadata, entries } = json::parse(json)?;
        let entries = order::sorted(entries, |(_, entry)| entry.data_offsets);
        let mut end = 0;
        let tensors = entries.into_iter().map(|(name, entry)| {
            let tensor = Tensor {
                name,
                dtype: entry.dtype,
                shape: entry.shape.dimensions,
                span: entry.data_offsets.0..entry.data_offsets.1,
            };
            check_tensor(&tensor, entry.shape.elements, end)
                .map_err(|error| error.tensor(&tensor.name))?;
            end = tensor.span.end;
            Ok(tensor)
        });
        let tensors = tensors.collect::<Result<Vec<_>>>()?;
        if end > data_len_bytes {
            return Err(Error::malformed(
                Rule::SafetensorsTruncated,
                format!(
                    "the tensors cover {end} bytes of data, but the file has only \
                     {data_len_bytes}: it was cut off"
                ),
            ));
        }
        if end < data_len_bytes {
            return Err(Error::malformed(
                Rule::SafetensorsCoverage,
                format!("the tensors cover {end} bytes of data, the file has {data_len_bytes}"),
            ));
        }
        Ok(Self { tensors, metadata })
    }
}

/// Checks a tensor of so many elements, if they can be counted, whose bytes
/// should begin where those of the tensor before end.
fn check_tensor(tensor: &Tensor, elements: Option<u64>, expected_begin: u64) -> Result<()> {
    let Range { start, end } = tensor.span;
    if start != expected_begin || end < start {
        return Err(Error::malformed(
            Rule::SafetensorsOffsets,
            format!("data offsets [{start}, {end}) where {expected_begin} should begin"),
        ));
    }
    let overflow = || {
        Error::malformed(
            Rule::SafetensorsOverflow,
            "the size computed from shape and dtype exceeds 64 bits",
        )
    };
    let elements = elements.ok_or_else(overflow)?;
    let bits = elements
        .checked_mul(tensor.dtype.bits())
        .ok_or_else(overflow)?;
    if bits % 8 != 0 {
        return Err(Error::malformed(
            Rule::SafetensorsSubByte,
            format!(
                "{elements} elements of {} do not fill whole bytes",
                tensor.dtype
            ),
        ));
    }
    if end - start != bits / 8 {
        return Err(Error::malformed(
            Rule::SafetensorsSize,
            format!(
                "shape and dtype make {} bytes, the data offsets {}",
                bits / 8,
                end - start
            ),
        ));
    }
    Ok(())
}
