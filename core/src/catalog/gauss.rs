//! Opens a Gauss file. Its index comes first and does not state its own length,
//! so parsing it determines whether more bytes are required.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::file_opener::FetchedRanges;
use super::format::{AnyContents, Contents, Opener, StoredTensor};
use super::{FileCatalog, FileTensor};
use crate::container::foreign::gauss::{self, GaussIndex, ParsedIndex};
use crate::engine::Engine;
use crate::{Error, Result};

/// The opener of a Gauss file. It has no state: the index is short, so it is
/// parsed again whenever more of it has been fetched.
#[derive(Debug, Clone, Default)]
pub(super) struct FormatOpener;

impl Opener for FormatOpener {
    fn needs(&self, fetched: &FetchedRanges) -> Result<Vec<Range<u64>>> {
        Ok(
            match GaussIndex::parse(fetched.head(), fetched.len_bytes())? {
                ParsedIndex::Complete(_) => Vec::new(),
                ParsedIndex::Needs(end) => fetched.missing_head(end).into_iter().collect(),
            },
        )
    }

    fn finish<E: Engine>(self, fetched: &FetchedRanges, _: &E) -> Result<FileCatalog> {
        match GaussIndex::parse(fetched.head(), fetched.len_bytes())? {
            ParsedIndex::Complete(index) => FileCatalog::gauss(index, fetched.len_bytes()),
            ParsedIndex::Needs(_) => Err(Error::invalid_input(
                "not all requested ranges were supplied",
            )),
        }
    }
}

/// The entries of the index, which decoding requires.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FormatContents(Vec<gauss::IndexedTensor>);

impl Contents for FormatContents {
    fn decode<'a, E: Engine>(
        &self,
        engine: &E,
        stored: StoredTensor<'a, '_>,
    ) -> Result<Cow<'a, [u8]>> {
        // The offsets in the decoder's errors are relative to the start of the
        // file.
        gauss::decode(engine, &self.0[stored.number], stored.bytes)
    }

    #[cfg(feature = "decode-task")]
    fn project(&self, number: usize) -> Self {
        Self([self.0[number].clone()].into())
    }
}

impl FileCatalog {
    fn gauss(index: GaussIndex, file_len_bytes: u64) -> Result<Self> {
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
            AnyContents::Gauss(FormatContents(index.tensors)),
            file_len_bytes,
            end,
            None,
            BTreeMap::new(),
            tensors,
        )
    }

    /// Returns the mixtures, scales and shards of tensor `number` of a Gauss
    /// file, or `None` for other formats.
    #[must_use]
    pub fn gauss_tensor(&self, number: usize) -> Option<&gauss::IndexedTensor> {
        match &self.contents {
            AnyContents::Gauss(FormatContents(tensors)) => tensors.get(number),
            _ => None,
        }
    }
}
