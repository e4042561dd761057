//! safetensors headers, checked by the official rules
//! (docs/formats/z4ai-containers.md 1).
//!
//! Only the header is parsed: the first bytes of a checkpoint describe all of
//! its tensors, and their data are never read.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use serde_json::Value;

use crate::bytes::{Cursor, index};
use crate::dtype::Dtype;
use crate::limits::HEADER_LEN_BYTES;
use crate::{Error, Result, Rule, sort};
use json::WrittenDtype;

mod json;
mod shard_index;

pub use json::{head, head_of};
pub use shard_index::{KERAS_INDEX_SUFFIX, SHARD_INDEX_SUFFIX, ShardIndex};

/// The number of bytes before the header, which contain its length.
pub const PREFIX_BYTES: u64 = 8;

/// A tensor listed in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderTensor {
    /// The name, with JSON escapes resolved.
    pub name: String,
    /// The element type.
    pub dtype: Dtype,
    /// The shape, outermost dimension first. Empty for a scalar. A shape with
    /// more than [`crate::limits::DIMENSIONS`] dimensions, which no catalog
    /// accepts, is truncated.
    pub shape: Vec<u64>,
    /// The range of the tensor in the data buffer.
    pub span: Range<u64>,
}

/// A header that follows all official rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The tensors in data order. Empty tensors with the same span are in
    /// header order.
    pub tensors: Vec<HeaderTensor>,
    /// The entries of `__metadata__`; empty if the header has none.
    pub metadata: BTreeMap<String, String>,
}

/// Returns the length of the header, given the first bytes of a file of
/// `file_len_bytes`.
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
    check_header_len(len, file_len_bytes)
}

/// Returns the length of a header that no reader accepts, because it exceeds
/// the cap or begins with a byte order mark; `None` for other headers. A file
/// with such a header can still be packed as a whole.
#[must_use]
pub fn unreadable_header_len_bytes(head: &[u8], file_len_bytes: u64) -> Option<u64> {
    let len = Cursor::new(head).u64("header length").ok()?;
    let after = head.get(index(PREFIX_BYTES)..)?;
    let text = after.strip_prefix("\u{feff}".as_bytes());
    let is_unreadable = text.is_some() || len > HEADER_LEN_BYTES;
    let is_json = text.unwrap_or(after).first() == Some(&b'{');
    (is_unreadable && is_json && check_header_len(len, file_len_bytes).is_ok()).then_some(len)
}

fn check_header_len(len: u64, file_len_bytes: u64) -> Result<u64> {
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
    /// Parses the header `json` of a file whose data buffer is `data_len_bytes`
    /// long. Like the official reader, it refuses a header with an unknown
    /// dtype.
    pub fn parse(json: &[u8], data_len_bytes: u64) -> Result<Self> {
        let (header, unknown) = Self::parse_known(json, data_len_bytes)?;
        match unknown.into_iter().next() {
            None => Ok(header),
            Some((name, error)) => Err(error.tensor(&name)),
        }
    }

    /// Parses a header like [`Header::parse`], but accepts unknown dtypes.
    /// Tensors of an unknown dtype are left out of the header and returned with
    /// the reason. Their spans are checked, but not their lengths.
    pub(crate) fn parse_known(
        json: &[u8],
        data_len_bytes: u64,
    ) -> Result<(Self, Vec<(String, Error)>)> {
        if json.len() as u64 > HEADER_LEN_BYTES {
            return Err(Error::malformed(
                Rule::SafetensorsHeaderCap,
                format!("a header of {} bytes is over the cap", json.len()),
            ));
        }
        let json::Document {
            metadata,
            entries,
            repeated,
        } = json::parse(json)?;
        // Only the last entry of a repeated name is used, so the bytes of the
        // others look like a gap. The repetition is the cause to report.
        let explained = |error: Error| match &repeated {
            Some(name) => Error::malformed(
                error.rule().unwrap_or(Rule::SafetensorsOffsets),
                format!("the header has several entries of this name: {error}"),
            )
            .tensor(name),
            None => error,
        };
        let entries = sort::sorted(entries, |(_, entry)| entry.data_offsets);
        let mut end = 0;
        let mut tensors = Vec::with_capacity(entries.len());
        let mut unknown = Vec::new();
        for (name, entry) in entries {
            let span = entry.data_offsets.0..entry.data_offsets.1;
            check_span(&span, end).map_err(|error| explained(error.tensor(&name)))?;
            end = span.end;
            let dtype = match entry.dtype {
                WrittenDtype::Known(dtype) => dtype,
                WrittenDtype::Unknown(dtype) => {
                    let detail =
                        format!("its dtype `{dtype}` is unknown to this version: use a newer one");
                    unknown.push((name, Error::unsupported(detail)));
                    continue;
                }
            };
            let tensor = HeaderTensor {
                name,
                dtype,
                shape: entry.shape.dimensions,
                span,
            };
            check_len(&tensor, entry.shape.elements).map_err(|error| error.tensor(&tensor.name))?;
            tensors.push(tensor);
        }
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
            return Err(explained(Error::malformed(
                Rule::SafetensorsCoverage,
                format!("the tensors cover {end} bytes of data, the file has {data_len_bytes}"),
            )));
        }
        Ok((Self { tensors, metadata }, unknown))
    }
}

/// Checks a tensor of `elements` elements (`None` if they exceed 64 bits),
/// whose bytes must begin at `expected_begin`, where the previous tensor ends.
fn check_tensor(tensor: &HeaderTensor, elements: Option<u64>, expected_begin: u64) -> Result<()> {
    check_span(&tensor.span, expected_begin)?;
    check_len(tensor, elements)
}

fn check_span(&Range { start, end }: &Range<u64>, expected_begin: u64) -> Result<()> {
    if start != expected_begin || end < start {
        return Err(Error::malformed(
            Rule::SafetensorsOffsets,
            format!(
                "data offsets [{start}, {end}) are not a range that begins at {expected_begin}"
            ),
        ));
    }
    Ok(())
}

/// Checks that the tensor's span has the length that its dtype and its number
/// of elements imply.
fn check_len(tensor: &HeaderTensor, elements: Option<u64>) -> Result<()> {
    let Range { start, end } = tensor.span;
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

/// A tensor whose span lies inside the data. Nothing else about it has been
/// checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LenientTensor {
    /// The name, unique within the header.
    pub name: String,
    /// The dtype as spelled in the header; `U8` if it is missing, `None` if it
    /// is not a string.
    pub dtype: Option<String>,
    /// The range of the tensor in the data buffer.
    pub span: Range<u64>,
}

/// Parses the tensors of the header `json`. Of a repeated name, the last entry
/// is used.
pub(crate) fn parse_lenient(json: &[u8], data_len_bytes: u64) -> Result<Vec<LenientTensor>> {
    let entries: BTreeMap<String, Value> = serde_json::from_slice(json).map_err(|error| {
        Error::malformed(
            Rule::SafetensorsJson,
            format!("the header is not an object of tensors: {error}"),
        )
    })?;
    entries
        .into_iter()
        .filter(|(name, _)| name != "__metadata__")
        .map(|(name, entry)| {
            let offset = |i: usize| entry.get("data_offsets")?.get(i)?.as_u64();
            let span = match (offset(0), offset(1)) {
                (Some(start), Some(end)) if start <= end && end <= data_len_bytes => start..end,
                _ => {
                    return Err(Error::malformed(
                        Rule::SafetensorsOffsets,
                        "the data offsets do not lie inside the data",
                    )
                    .tensor(&name));
                }
            };
            let dtype = match entry.get("dtype") {
                None => Some("U8".into()),
                Some(dtype) => dtype.as_str().map(String::from),
            };
            Ok(LenientTensor { name, dtype, span })
        })
        .collect()
}
