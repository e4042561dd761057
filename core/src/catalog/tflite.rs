//! Opens a TensorFlow Lite model. Its tables refer to each other, so they are
//! parsed again whenever more of them have been fetched. All bytes that are
//! known to be missing are requested at the same time.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::blocks::Blocks;
use super::file_opener::FetchedRanges;
use super::format::{AnyContents, Contents, Opener, StoredTensor};
use super::range_plan::{RangePlan, without_padding};
use super::{FileCatalog, FileTensor, Refused};
use crate::container::foreign::ElementCoding;
use crate::container::foreign::tflite::{BLOCK_BYTES, ParsedModel, TfliteModel, TfliteType};
#[cfg(feature = "virtual-headers")]
use crate::container::zstn::virtual_header::PlacedTensor;
use crate::engine::Engine;
use crate::{Error, Result, sort};

/// The opener of a model.
#[derive(Debug, Clone, Default)]
pub(super) struct FormatOpener {
    blocks: Blocks<BLOCK_BYTES>,
    model: Option<TfliteModel>,
}

impl Opener for FormatOpener {
    fn needs(&self, _: &FetchedRanges) -> Result<Vec<Range<u64>>> {
        Ok(self.blocks.needs().to_vec())
    }

    fn supply(&self, fetched: &mut FetchedRanges, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        self.blocks.supply(fetched, offset_bytes, bytes)
    }

    fn advance(&mut self, fetched: &FetchedRanges) -> Result<()> {
        if !self.blocks.keep(fetched) || self.model.is_some() {
            return Ok(());
        }
        let have = |range: Range<u64>| self.blocks.have(fetched, range);
        match TfliteModel::parse(&have, fetched.len_bytes())? {
            ParsedModel::Complete(model) => self.model = Some(model),
            ParsedModel::Needs(needs) => self.blocks.request(fetched, needs)?,
        }
        Ok(())
    }

    fn finish<E: Engine>(self, fetched: &FetchedRanges, _: &E) -> Result<FileCatalog> {
        let missing = || Error::invalid_input("not all requested ranges were supplied");
        FileCatalog::tflite(self.model.ok_or_else(missing)?, fetched.len_bytes())
    }
}

/// The element type of each tensor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FormatContents(Vec<TfliteType>);

fn coding(element: TfliteType) -> ElementCoding {
    match element {
        TfliteType::Whole(_) => ElementCoding::Plain,
        TfliteType::Narrow(narrow) => ElementCoding::Narrow(narrow),
    }
}

impl Contents for FormatContents {
    fn decode<'a, E: Engine>(&self, _: &E, stored: StoredTensor<'a, '_>) -> Result<Cow<'a, [u8]>> {
        let decoded = coding(self.0[stored.number]).decode(stored.bytes);
        let decoded = decoded.map_err(stored.in_file())?;
        Ok(without_padding(decoded, stored.tensor.len_bytes()))
    }

    fn plan(
        &self,
        tensor: &FileTensor,
        number: usize,
        span: &Range<u64>,
        _: Option<&[u8]>,
    ) -> Result<Option<RangePlan>> {
        let start = tensor.stored.start;
        Ok(Some(RangePlan::of_units(
            start,
            coding(self.0[number]),
            span,
        )))
    }

    #[cfg(feature = "virtual-headers")]
    fn place(&self, tensor: &FileTensor, number: usize) -> Option<PlacedTensor> {
        let element = *self.0.get(number)?;
        tensor.placed_plain(coding(element) == ElementCoding::Plain, None)
    }

    #[cfg(feature = "decode-task")]
    fn project(&self, number: usize) -> Self {
        Self([self.0[number]].into())
    }
}

impl FileCatalog {
    fn tflite(model: TfliteModel, file_len_bytes: u64) -> Result<Self> {
        let mut end = 0u64;
        let mut tensors = Vec::new();
        let mut elements = Vec::new();
        for tensor in model.tensors {
            let start = end;
            end = start.checked_add(tensor.len_bytes).ok_or_else(|| {
                Error::limit("the tensors have more bytes than 64 bits can count")
                    .tensor(&tensor.name)
            })?;
            elements.push(tensor.element);
            tensors.push(FileTensor {
                name: tensor.name,
                dtype: tensor.element.dtype(),
                shape: tensor.shape,
                span: start..end,
                stored: tensor.stored,
                base: None,
                alias_of: None,
            });
        }
        let mut catalog = Self::new(
            AnyContents::Tflite(FormatContents(elements)),
            file_len_bytes,
            end,
            None,
            sort::map(model.metadata.into_iter()),
            tensors,
        )?;
        catalog.refused = Refused::new(model.refused);
        Ok(catalog)
    }

    /// Returns the name of the stored element type of tensor `number` of a
    /// TensorFlow Lite model, if its elements are smaller than a byte.
    pub(super) fn tflite_type(&self, number: usize) -> Option<&'static str> {
        match &self.contents {
            AnyContents::Tflite(FormatContents(elements)) => elements.get(number)?.narrow_name(),
            _ => None,
        }
    }
}
