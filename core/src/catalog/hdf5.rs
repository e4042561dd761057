//! Opens an HDF5 file. Its structures refer to each other, so they are parsed again
//! whenever more of them have been fetched.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::blocks::Blocks;
use super::file_opener::FetchedRanges;
use super::format::{AnyContents, Contents, Opener, StoredTensor};
use super::range_plan::RangePlan;
use super::{FileCatalog, FileTensor, Refused};
#[cfg(feature = "virtual-headers")]
use crate::container::foreign::ElementCoding;
use crate::container::foreign::hdf5::{
    BLOCK_BYTES, Hdf5Contents, Hdf5Values, ParsedHdf5, superblock_at,
};
#[cfg(feature = "virtual-headers")]
use crate::container::zstn::virtual_header::PlacedTensor;
use crate::engine::Engine;
use crate::{Error, Result};

/// The opener of a file.
#[derive(Debug, Clone, Default)]
pub(super) struct FormatOpener {
    blocks: Blocks<BLOCK_BYTES>,
    contents: Option<Hdf5Contents>,
}

impl Opener for FormatOpener {
    fn needs(&self, _: &FetchedRanges) -> Result<Vec<Range<u64>>> {
        Ok(self.blocks.needs().to_vec())
    }

    fn supply(&self, fetched: &mut FetchedRanges, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        self.blocks.supply(fetched, offset_bytes, bytes)
    }

    fn advance(&mut self, fetched: &FetchedRanges) -> Result<()> {
        if !self.blocks.keep(fetched) || self.contents.is_some() {
            return Ok(());
        }
        let base = superblock_at(fetched.head()).unwrap_or(0);
        let have = |range: Range<u64>| self.blocks.have(fetched, range);
        match Hdf5Contents::parse(&have, fetched.len_bytes(), base)? {
            ParsedHdf5::Complete(contents) => self.contents = Some(contents),
            ParsedHdf5::Needs(needs) => self.blocks.request(fetched, needs)?,
        }
        Ok(())
    }

    fn finish<E: Engine>(self, fetched: &FetchedRanges, _: &E) -> Result<FileCatalog> {
        let missing = || Error::invalid_input("not all requested ranges were supplied");
        FileCatalog::hdf5(self.contents.ok_or_else(missing)?, fetched.len_bytes())
    }
}

/// The storage of each dataset.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FormatContents(Vec<Hdf5Values>);

impl Contents for FormatContents {
    fn decode<'a, E: Engine>(&self, _: &E, stored: StoredTensor<'a, '_>) -> Result<Cow<'a, [u8]>> {
        let tensor = stored.tensor;
        let decoded = self.0[stored.number].decode(&tensor.shape, tensor.len_bytes(), stored.bytes);
        decoded.map_err(stored.in_file())
    }

    fn plan(
        &self,
        tensor: &FileTensor,
        number: usize,
        span: &Range<u64>,
        _: Option<&[u8]>,
    ) -> Result<Option<RangePlan>> {
        let start = tensor.stored.start;
        Ok(match &self.0[number] {
            Hdf5Values::Contiguous(coding) => Some(RangePlan::of_units(start, *coding, span)),
            Hdf5Values::Chunked(_) => None,
        })
    }

    #[cfg(feature = "virtual-headers")]
    fn place(&self, tensor: &FileTensor, number: usize) -> Option<PlacedTensor> {
        let plain = Hdf5Values::Contiguous(ElementCoding::Plain);
        tensor.placed_plain(*self.0.get(number)? == plain, None)
    }

    #[cfg(feature = "decode-task")]
    fn project(&self, number: usize) -> Self {
        Self([self.0[number].clone()].into())
    }
}

impl FileCatalog {
    fn hdf5(contents: Hdf5Contents, file_len_bytes: u64) -> Result<Self> {
        let mut end = 0u64;
        let mut tensors = Vec::new();
        let mut values = Vec::new();
        for dataset in contents.datasets {
            let start = end;
            end = start.checked_add(dataset.len_bytes).ok_or_else(|| {
                Error::limit("the datasets have more bytes than 64 bits can count")
                    .tensor(&dataset.name)
            })?;
            tensors.push(FileTensor {
                name: dataset.name,
                dtype: dataset.dtype,
                shape: dataset.shape,
                span: start..end,
                stored: dataset.stored,
                base: None,
                alias_of: None,
            });
            values.push(dataset.values);
        }
        let mut catalog = Self::new(
            AnyContents::Hdf5(FormatContents(values)),
            file_len_bytes,
            end,
            None,
            contents.metadata,
            tensors,
        )?;
        catalog.refused = Refused::new(contents.refused);
        Ok(catalog)
    }
}
