//! The catalog of a Gauss file. Its index comes first and nowhere says how
//! long it is: reading it tells whether more is needed.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use super::known::Known;
use super::{Catalog, Contents, Tensor};
use crate::container::gauss::{self, Index, Parsed};
use crate::{Error, Result};

/// What is missing of the index, as far as the part known tells.
pub(super) fn needs(known: &Known) -> Result<Option<Range<u64>>> {
    Ok(match Index::parse(known.head(), known.len_bytes())? {
        Parsed::Complete(_) => None,
        Parsed::Needs(end) => known.missing_head(end),
    })
}

/// The catalog, once nothing is missing.
pub(super) fn finish(known: &Known) -> Result<Catalog> {
    match Index::parse(known.head(), known.len_bytes())? {
        Parsed::Complete(index) => Catalog::gauss(index, known.len_bytes()),
        Parsed::Needs(_) => Err(Error::invalid_input("bytes of the file are still missing")),
    }
}

impl Catalog {
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
                Ok(Tensor {
                    name: tensor.name.clone(),
                    dtype: tensor.dtype,
                    shape: tensor.shape.clone(),
                    span: start..end,
                    stored: tensor.stored.clone(),
                    base: None,
                    shared_with: None,
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

    /// Mixtures, scales and shards of tensor `number` of a Gauss file; `None`
    /// for other files.
    #[must_use]
    pub fn gauss_tensor(&self, number: usize) -> Option<&gauss::Tensor> {
        match &self.contents {
            Contents::Gauss(tensors) => tensors.get(number),
            _ => None,
        }
    }
}
