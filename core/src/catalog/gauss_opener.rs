//! Opens a Gauss file. Its index comes first and does not state its length:
//! only parsing it shows whether more is needed.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use super::fetched::FetchedRanges;
use super::{Contents, FileCatalog, FileTensor};
use crate::container::foreign::gauss::{self, Index, Parsed};
use crate::{Error, Result};

/// Returns the range that is missing of the index, as far as the fetched part
/// shows.
pub(super) fn needs(fetched: &FetchedRanges) -> Result<Option<Range<u64>>> {
    Ok(match Index::parse(fetched.head(), fetched.len_bytes())? {
        Parsed::Complete(_) => None,
        Parsed::Needs(end) => fetched.missing_head(end),
    })
}

/// Returns the catalog, once nothing is missing.
pub(super) fn finish(fetched: &FetchedRanges) -> Result<FileCatalog> {
    match Index::parse(fetched.head(), fetched.len_bytes())? {
        Parsed::Complete(index) => FileCatalog::gauss(index, fetched.len_bytes()),
        Parsed::Needs(_) => Err(Error::invalid_input("bytes of the file are still missing")),
    }
}

impl FileCatalog {
    fn gauss(index: Index, file_len_bytes: u64) -> Result<Self> {
        let mut end = 0u64;
        let tensors = index
            .tensors
            .iter()
            .map(|tensor| {
                let start = end;
                end = start.checked_add(tensor.len_bytes()).ok_or_else(|| {
                    Error::limit("the tensors have more bytes than 64 bits can count")
                        .tensor(&tensor.name)
                })?;
                Ok(FileTensor {
                    name: tensor.name.clone(),
                    dtype: tensor.dtype,
                    shape: tensor.shape.clone(),
                    span: start..end,
                    stored: tensor.stored.clone(),
                    base: None,
                    alias_of: None,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        Self::new(
            Contents::Gauss(index.tensors),
            file_len_bytes,
            end,
            None,
            BTreeMap::new(),
            tensors,
        )
    }

    /// Returns the mixtures, scales and shards of tensor `number` of a Gauss
    /// file; `None` for other files.
    #[must_use]
    pub fn gauss_tensor(&self, number: usize) -> Option<&gauss::Tensor> {
        match &self.contents {
            Contents::Gauss(tensors) => tensors.get(number),
            _ => None,
        }
    }
}
