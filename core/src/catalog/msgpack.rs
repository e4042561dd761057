//! Opens a msgpack file of arrays, which a walk through its maps finds.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::file_opener::FetchedRanges;
use super::format::{AnyContents, Contents, Opener, StoredTensor};
use super::range_plan::RangePlan;
use super::sequential::Sequential;
use super::{FileCatalog, FileTensor, Refused};
use crate::container::foreign::msgpack::{MsgpackFile, MsgpackWalk};
#[cfg(feature = "virtual-headers")]
use crate::container::zstn::virtual_header::PlacedTensor;
use crate::engine::Engine;
use crate::{Error, Result, bytes};

/// The opener of a msgpack file.
#[derive(Debug, Clone, Default)]
pub(super) struct FormatOpener(Sequential<MsgpackWalk>);

impl Opener for FormatOpener {
    fn needs(&self, _: &FetchedRanges) -> Result<Vec<Range<u64>>> {
        Ok(self.0.needs().into_iter().collect())
    }

    fn supply(&self, fetched: &mut FetchedRanges, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        self.0.supply(fetched, offset_bytes, bytes)
    }

    fn advance(&mut self, fetched: &FetchedRanges) -> Result<()> {
        self.0.advance(fetched)
    }

    fn finish<E: Engine>(self, fetched: &FetchedRanges, _: &E) -> Result<FileCatalog> {
        let file = self.0.finish()?.finish()?;
        FileCatalog::msgpack(file, fetched.len_bytes())
    }
}

/// The ranges of the file that contain each array: one, or one for each chunk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FormatContents(Vec<Vec<Range<u64>>>);

impl Contents for FormatContents {
    fn decode<'a, E: Engine>(&self, _: &E, stored: StoredTensor<'a, '_>) -> Result<Cow<'a, [u8]>> {
        let start = stored.tensor.stored.start;
        let pieces = self.0[stored.number].iter();
        let mut pieces =
            pieces.map(|piece| bytes::part(stored.bytes, piece.start - start..piece.end - start));
        if pieces.len() == 1 {
            return Ok(Cow::Borrowed(pieces.next().unwrap_or_default()));
        }
        let mut out = bytes::with_capacity(stored.tensor.len_bytes())?;
        pieces.for_each(|piece| out.extend_from_slice(piece));
        Ok(Cow::Owned(out))
    }

    fn plan(
        &self,
        _: &FileTensor,
        number: usize,
        span: &Range<u64>,
        _: Option<&[u8]>,
    ) -> Result<Option<RangePlan>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut begin = 0;
        for piece in &self.0[number] {
            let end = begin + (piece.end - piece.start);
            let (from, to) = (span.start.clamp(begin, end), span.end.clamp(begin, end));
            if from < to {
                ranges.push(piece.start + (from - begin)..piece.start + (to - begin));
            }
            begin = end;
        }
        // Chunks in another order than that of their numbers are read as a whole.
        let is_ascending = ranges.is_sorted_by(|one, next| one.end < next.start);
        Ok(is_ascending.then(|| RangePlan::stored(ranges)))
    }

    #[cfg(feature = "virtual-headers")]
    fn place(&self, tensor: &FileTensor, number: usize) -> Option<PlacedTensor> {
        let pieces = self.0.get(number)?;
        tensor.placed_plain(pieces.len() == 1, None)
    }

    #[cfg(feature = "decode-task")]
    fn project(&self, number: usize) -> Self {
        Self([self.0[number].clone()].into())
    }
}

impl FileCatalog {
    fn msgpack(file: MsgpackFile, file_len_bytes: u64) -> Result<Self> {
        let mut end = 0u64;
        let mut tensors = Vec::new();
        let mut pieces = Vec::new();
        for (name, array) in file.arrays {
            let start = end;
            end = start.checked_add(array.len_bytes()).ok_or_else(|| {
                Error::limit("the arrays have more bytes than 64 bits can count").tensor(&name)
            })?;
            let first = array.pieces.iter().map(|piece| piece.start).min();
            let last = array.pieces.iter().map(|piece| piece.end).max();
            tensors.push(FileTensor {
                name,
                dtype: array.dtype,
                shape: array.shape,
                span: start..end,
                stored: first.unwrap_or(0)..last.unwrap_or(0),
                base: None,
                alias_of: None,
            });
            pieces.push(array.pieces);
        }
        let mut catalog = Self::new(
            AnyContents::Msgpack(FormatContents(pieces)),
            file_len_bytes,
            end,
            None,
            file.metadata,
            tensors,
        )?;
        catalog.refused = Refused::new(file.refused);
        Ok(catalog)
    }
}
