//! A lenient header parser that accepts what z4ai accepts
//! (docs/formats/z4ai-containers.md 1.6). It is enough to find tensors by name
//! in a file that breaks the official rules, such as the base of a delta, and
//! it is never used to restore a file.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use serde_json::Value;

use crate::{Error, Result, Rule};

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
pub fn parse(json: &[u8], data_len_bytes: u64) -> Result<Vec<LenientTensor>> {
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
