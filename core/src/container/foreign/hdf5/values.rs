//! The values of a dataset, joined from its chunks (docs/formats/hdf5.md 5 and
//! 6).

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::filters::{Filter, INFLATION};
use super::layout::Chunk;
use crate::bytes::{buffer, index, part};
use crate::container::foreign::ElementCoding;
use crate::limits::HDF5_FREE_BYTES;
use crate::{Error, Result, Rule, sort};

/// How the stored bytes of a dataset become its values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Hdf5Values {
    /// The stored bytes are elements of this coding.
    Contiguous(ElementCoding),
    /// The stored bytes contain chunks. A dataset without stored values has none.
    Chunked(Hdf5Chunks),
}

/// The chunks of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hdf5Chunks {
    pub(super) coding: ElementCoding,
    /// The size of a chunk in each dimension.
    pub(super) sizes: Vec<u64>,
    pub(super) filters: Vec<Filter>,
    /// The stored bytes of an element that is in no chunk.
    pub(super) fill: Vec<u8>,
    pub(super) chunks: Vec<Chunk>,
}

impl Hdf5Chunks {
    /// Checks that no two chunks are at the same place, in the dataset or in the
    /// file.
    pub(super) fn check(&self) -> Result<()> {
        let twice = |at| {
            let detail = "two chunks are at the same place";
            Error::malformed(Rule::Hdf5Chunk, detail).at(at)
        };
        let mut origins = BTreeSet::new();
        for chunk in &self.chunks {
            if !origins.insert(&chunk.origin) {
                return Err(twice(chunk.stored.start));
            }
        }
        let order = sort::by_key(self.chunks.iter().map(|c| (c.stored.start, c.stored.end)));
        for pair in order.windows(2) {
            let [before, after] = [&self.chunks[pair[0]].stored, &self.chunks[pair[1]].stored];
            if after.start < before.end {
                return Err(twice(after.start));
            }
        }
        Ok(())
    }

    /// Returns the range of the file from the first chunk to the last.
    pub(super) fn stored(&self) -> core::ops::Range<u64> {
        let starts = self.chunks.iter().map(|chunk| chunk.stored.start);
        let ends = self.chunks.iter().map(|chunk| chunk.stored.end);
        starts.min().unwrap_or(0)..ends.max().unwrap_or(0)
    }

    fn decode(&self, shape: &[u64], len_bytes: u64, stored: &[u8]) -> Result<Vec<u8>> {
        let stored_bytes = self.chunks.iter().map(|c| c.stored.end - c.stored.start);
        let factor = if self.filters.contains(&Filter::Deflate) {
            INFLATION
        } else {
            1
        };
        let earned = stored_bytes
            .fold(0, u64::saturating_add)
            .saturating_mul(factor);
        if len_bytes > earned.saturating_add(HDF5_FREE_BYTES) {
            let detail = "it has more elements without a stored value than are read";
            return Err(Error::limit(detail));
        }
        let mut out = buffer(len_bytes)?;
        if self.fill.iter().any(|byte| *byte != 0) {
            for element in out.chunks_exact_mut(self.fill.len()) {
                element.copy_from_slice(&self.fill);
            }
        }
        let start = self.stored().start;
        let width = self.fill.len() as u64;
        let count = self.sizes.iter().product::<u64>();
        for chunk in &self.chunks {
            let range = chunk.stored.start - start..chunk.stored.end - start;
            let bytes = part(stored, range);
            let values = Filter::reverse(&self.filters, chunk.mask, bytes, count * width);
            let values = values.map_err(|error| error.at(chunk.stored.start - start))?;
            self.place(&values, &chunk.origin, shape, &mut out);
        }
        Ok(self.coding.decode(&out)?.into_owned())
    }

    /// Copies the values of a chunk to their places. Those outside of the shape
    /// are left out.
    fn place(&self, values: &[u8], origin: &[u64], shape: &[u64], out: &mut [u8]) {
        let (Some((row, rows)), Some((row_at, places)), Some((size, outer))) = (
            self.sizes.split_last(),
            origin.split_last(),
            shape.split_last(),
        ) else {
            return;
        };
        let width = self.fill.len() as u64;
        let row_bytes = index(row * width);
        let copied = (*row).min(size.saturating_sub(*row_at)) * width;
        let mut position: Vec<u64> = rows.iter().map(|_| 0).collect();
        for values in values.chunks_exact(row_bytes.max(1)) {
            let mut at = 0;
            let mut is_inside = true;
            for ((place, from), size) in position.iter().zip(places).zip(outer) {
                is_inside &= from + place < *size;
                at = at * size + from + place;
            }
            if is_inside {
                let start = index((at * size + row_at) * width);
                let copied = index(copied);
                out[start..start + copied].copy_from_slice(&values[..copied]);
            }
            for (place, size) in position.iter_mut().zip(rows).rev() {
                *place += 1;
                if *place < *size {
                    break;
                }
                *place = 0;
            }
        }
    }
}

impl Hdf5Values {
    /// Decodes the stored bytes of a dataset of this shape, whose values have
    /// `len_bytes`.
    ///
    /// # Errors
    /// [`Rule::Hdf5Chunk`] for a damaged chunk, with its offset in the stored
    /// bytes.
    pub fn decode<'a>(
        &self,
        shape: &[u64],
        len_bytes: u64,
        stored: &'a [u8],
    ) -> Result<Cow<'a, [u8]>> {
        match self {
            Self::Contiguous(coding) => coding.decode(stored),
            Self::Chunked(chunks) => chunks.decode(shape, len_bytes, stored).map(Cow::Owned),
        }
    }
}
