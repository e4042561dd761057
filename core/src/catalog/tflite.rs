//! Opens a TensorFlow Lite model. Its tables refer to each other, so they are
//! parsed again whenever more of them have been fetched. All bytes that are
//! known to be missing are requested at the same time.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::file_opener::FetchedRanges;
use super::format::{AnyContents, Contents, Opener, StoredTensor};
use super::range_plan::{RangePlan, without_padding};
use super::{FileCatalog, FileTensor, Refused};
use crate::bytes::{index, part};
use crate::container::foreign::ElementCoding;
use crate::container::foreign::tflite::{BLOCK_BYTES, ParsedModel, TfliteModel, TfliteType};
use crate::engine::Engine;
use crate::limits::{TFLITE_TABLES_LEN_BYTES, WALKED_WHOLE_BYTES};
use crate::{Error, Result, sort};

/// The opener of a model.
#[derive(Debug, Clone, Default)]
pub(super) struct FormatOpener {
    /// The blocks that have been fetched after the head, by their numbers.
    blocks: BTreeMap<u64, Vec<u8>>,
    needs: Vec<Range<u64>>,
    model: Option<TfliteModel>,
}

impl Opener for FormatOpener {
    fn needs(&self, _: &FetchedRanges) -> Result<Vec<Range<u64>>> {
        Ok(self.needs.clone())
    }

    fn supply(&self, fetched: &mut FetchedRanges, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        let len_bytes = bytes.len() as u64;
        let mut needs = self.needs.iter();
        if !needs.any(|need| need.start == offset_bytes && need.end - need.start == len_bytes) {
            return Err(Error::invalid_input("these bytes were not requested"));
        }
        fetched.supply_window(offset_bytes, bytes);
        Ok(())
    }

    fn advance(&mut self, fetched: &FetchedRanges) -> Result<()> {
        if self.model.is_some() {
            return Ok(());
        }
        let (start, bytes) = fetched.window();
        if let Some(number) = self.needs.iter().position(|need| need.start == start) {
            self.needs.swap_remove(number);
            let blocks = bytes.chunks(index(BLOCK_BYTES)).map(<[u8]>::to_vec);
            self.blocks.extend((start / BLOCK_BYTES..).zip(blocks));
        }
        // All ranges of a round are used together.
        if !self.needs.is_empty() {
            return Ok(());
        }
        let have = |range: Range<u64>| self.have(fetched, range);
        match TfliteModel::parse(&have, fetched.len_bytes())? {
            ParsedModel::Complete(model) => self.model = Some(model),
            ParsedModel::Needs(needs) => self.needs = self.requests(fetched, needs)?,
        }
        Ok(())
    }

    fn finish<E: Engine>(self, fetched: &FetchedRanges, _: &E) -> Result<FileCatalog> {
        let missing = || Error::invalid_input("not all requested ranges were supplied");
        FileCatalog::tflite(self.model.ok_or_else(missing)?, fetched.len_bytes())
    }
}

impl FormatOpener {
    /// Returns the bytes of `range`, if all of them have been fetched.
    fn have<'a>(&self, fetched: &'a FetchedRanges, range: Range<u64>) -> Option<Cow<'a, [u8]>> {
        if range.end <= fetched.head().len() as u64 {
            return Some(part(fetched.head(), range).into());
        }
        let mut joined = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let (start, bytes) = match at < fetched.head().len() as u64 {
                true => (0, fetched.head()),
                false => {
                    let number = at / BLOCK_BYTES;
                    (number * BLOCK_BYTES, &self.blocks.get(&number)?[..])
                }
            };
            let end = (start + bytes.len() as u64).min(range.end);
            if end <= at {
                return None;
            }
            joined.extend_from_slice(part(bytes, at - start..end - start));
            at = end;
        }
        Some(joined.into())
    }

    /// Returns the ranges to fetch: the rest of a small file, or those of
    /// `needs` that have not been fetched.
    fn requests(&self, fetched: &FetchedRanges, needs: Vec<Range<u64>>) -> Result<Vec<Range<u64>>> {
        let (len_bytes, head_bytes) = (fetched.len_bytes(), fetched.head().len() as u64);
        if len_bytes <= WALKED_WHOLE_BYTES {
            return Ok([head_bytes..len_bytes].into());
        }
        let known = self.blocks.len() as u64 * BLOCK_BYTES;
        let needs = needs
            .into_iter()
            .map(|need| need.start.max(head_bytes)..need.end);
        let needs: Vec<Range<u64>> = needs.filter(|need| !need.is_empty()).collect();
        let more: u64 = needs.iter().map(|need| need.end - need.start).sum();
        match known.saturating_add(more) <= TFLITE_TABLES_LEN_BYTES {
            true => Ok(needs),
            false => Err(Error::limit(alloc::format!(
                "the tables of the model have more than {TFLITE_TABLES_LEN_BYTES} bytes, the most \
                 that are read"
            ))),
        }
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
