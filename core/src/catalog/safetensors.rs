//! Uncompressed safetensors files. The header at the front lists every tensor.

use alloc::borrow::Cow;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::file_opener::FetchedRanges;
use super::format::{AnyContents, Contents, Opener, StoredTensor};
use super::range_plan::RangePlan;
use super::{FileCatalog, FileTensor, Refused};
use crate::Result;
use crate::container::safetensors::{Header, PREFIX_BYTES, header_len_bytes};
use crate::engine::Engine;

/// The opener of a safetensors file. It has no state, since only the header has
/// to be fetched.
#[derive(Debug, Clone, Default)]
pub(super) struct FormatOpener;

impl Opener for FormatOpener {
    fn needs(&self, fetched: &FetchedRanges) -> Result<Vec<Range<u64>>> {
        let end = PREFIX_BYTES + header_len_bytes(fetched.head(), fetched.len_bytes())?;
        Ok(fetched.missing_head(end).into_iter().collect())
    }

    fn finish<E: Engine>(self, fetched: &FetchedRanges, _: &E) -> Result<FileCatalog> {
        let file_len_bytes = fetched.len_bytes();
        let data_start = PREFIX_BYTES + header_len_bytes(fetched.head(), file_len_bytes)?;
        let header_json = fetched.have(PREFIX_BYTES..data_start);
        let (header, unknown) = Header::parse_known(&header_json, file_len_bytes - data_start)?;
        let tensors = header
            .tensors
            .into_iter()
            .map(|tensor| FileTensor {
                stored: data_start + tensor.span.start..data_start + tensor.span.end,
                name: tensor.name,
                dtype: tensor.dtype,
                shape: tensor.shape,
                span: tensor.span,
                base: None,
                alias_of: None,
            })
            .collect();
        let mut catalog = FileCatalog::new(
            AnyContents::Safetensors(FormatContents),
            file_len_bytes,
            file_len_bytes - data_start,
            Some(header_json.into_owned()),
            header.metadata,
            tensors,
        )?;
        catalog.refused = Refused::new(unknown);
        Ok(catalog)
    }
}

/// The contents of a safetensors file. No fields are needed: tensors are stored
/// unchanged, in the ranges that the catalog lists.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FormatContents;

impl Contents for FormatContents {
    fn decode<'a, E: Engine>(&self, _: &E, stored: StoredTensor<'a, '_>) -> Result<Cow<'a, [u8]>> {
        Ok(Cow::Borrowed(stored.bytes))
    }

    fn plan(
        &self,
        tensor: &FileTensor,
        _: usize,
        span: &Range<u64>,
        _: Option<&[u8]>,
    ) -> Result<Option<RangePlan>> {
        let start = tensor.stored.start;
        let range = start + span.start..start + span.end;
        let ranges = if range.is_empty() {
            vec![]
        } else {
            vec![range]
        };
        Ok(Some(RangePlan::stored(ranges)))
    }

    #[cfg(feature = "decode-task")]
    fn project(&self, _: usize) -> Self {
        Self
    }
}
