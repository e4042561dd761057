//! The statistics of tensors in a file (docs/formats/zstn-integrity.md 7): the
//! section has an entry for every frame, and the figures of the bands of long
//! tensors precede the block tables.

use alloc::vec::Vec;
use core::ops::Range;

use crate::bytes::Cursor;
use crate::checksum::{agrees, short_checksum};
use crate::dtype::Dtype;
use crate::engine::Engine;
use crate::statistics::{self, BandGrid, Figures, Statistics, read_number, write_number};
use crate::{Error, Result, Rule, TensorRef};

/// The length of the checksum after the bands of a tensor, in bytes.
const CHECKSUM_BYTES: usize = 4;

/// The encoded statistics of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedStatistics {
    /// The figures of the whole tensor.
    pub summary: Vec<u8>,
    /// The figures of its bands with their checksum; empty for a tensor of one
    /// band.
    pub bands: Vec<u8>,
}

impl EncodedStatistics {
    /// Computes and encodes the statistics of a tensor; `None` if it has none.
    #[must_use]
    pub fn of<E: Engine>(engine: &E, tensor: TensorRef) -> Option<Self> {
        Some(Self::encode(
            &Statistics::of(engine, tensor)?,
            tensor.dtype?,
        ))
    }

    /// Encodes the statistics of a tensor with elements of this dtype.
    #[must_use]
    pub fn encode(statistics: &Statistics, dtype: Dtype) -> Self {
        let mut summary = Vec::new();
        statistics::write(&mut summary, &statistics.summary, dtype);
        let mut bands = Vec::new();
        if statistics.bands.len() > 1 {
            for band in &statistics.bands {
                statistics::write(&mut bands, band, dtype);
            }
            let sum = bands_checksum(&bands);
            bands.extend_from_slice(&sum.to_le_bytes());
        }
        Self { summary, bands }
    }
}

/// Appends the entry of a frame to the statistics record of the section.
pub(in crate::container::zstn) fn write_entry(
    record: &mut Vec<u8>,
    statistics: Option<&EncodedStatistics>,
) {
    let Some(statistics) = statistics else {
        return record.push(0);
    };
    write_number(record, statistics.bands.len() as u64 + 1);
    record.extend_from_slice(&statistics.summary);
}

/// The summary of a tensor, and the range of the file that contains its bands.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StoredStatistics {
    /// The figures of all elements.
    pub summary: Figures,
    /// The number of rows in a band. The last band can have fewer.
    pub rows_per_band: u64,
    /// The range of the file to fetch for [`StoredStatistics::bands`]; empty if
    /// the tensor is one band.
    pub range: Range<u64>,
    dtype: Dtype,
    grid: BandGrid,
}

impl StoredStatistics {
    /// Decodes the figures of every band from the bytes of
    /// [`StoredStatistics::range`].
    ///
    /// # Errors
    /// [`Rule::ZstnStatistics`] for damaged bytes.
    pub fn bands(&self, bytes: &[u8]) -> Result<Vec<Figures>> {
        if self.range.is_empty() {
            return Ok([self.summary].into());
        }
        let (bands, sum) = bytes.split_at(bytes.len().saturating_sub(CHECKSUM_BYTES));
        if !agrees(sum, &bands_checksum(bands).to_le_bytes()) {
            return Err(bad(
                "the statistics of the rows do not match their checksum: the file is damaged, get \
                 it again",
            ));
        }
        let mut cursor = Cursor::new(bands);
        let mut figures = Vec::new();
        for number in 0..self.grid.bands() {
            let elements = self.grid.elements(number);
            let count = elements.end - elements.start;
            figures.push(statistics::read(&mut cursor, count, self.dtype)?);
        }
        match cursor.remaining() {
            0 => Ok(figures),
            _ => Err(bad("bytes follow the statistics of the rows")),
        }
    }
}

/// The statistics record of a section, before it is parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatisticsRecord {
    /// The entries of all frames.
    pub bytes: Vec<u8>,
    /// The range of the file that contains the bands of all frames: between the
    /// last frame and the first block table.
    pub bands: Range<u64>,
}

impl StatisticsRecord {
    /// Parses the entries, given the dtypes and shapes of the frames' tensors.
    /// The result has `None` for frames without statistics.
    pub fn read<'a>(
        &self,
        frames: impl Iterator<Item = (Dtype, &'a [u64])>,
    ) -> Result<Vec<Option<StoredStatistics>>> {
        let available = self.bands.end - self.bands.start;
        let mut cursor = Cursor::new(&self.bytes);
        let mut entries = Vec::new();
        let mut total: u64 = 0;
        for (dtype, shape) in frames {
            let Some(len) = read_number(&mut cursor)?.checked_sub(1) else {
                entries.push(None);
                continue;
            };
            let grid = BandGrid::new(shape).filter(|_| statistics::has_figures(dtype));
            let Some(grid) = grid else {
                return Err(bad(
                    "statistics are stored for a tensor that cannot have any",
                ));
            };
            let summary = statistics::read(&mut cursor, grid.count(), dtype)?;
            total = total
                .checked_add(len)
                .filter(|&total| total <= available)
                .ok_or_else(|| bad("statistics of rows do not fit into the file"))?;
            // Every band takes at least one byte.
            let is_possible = match grid.bands() {
                1 => len == 0,
                bands => len >= bands.saturating_add(CHECKSUM_BYTES as u64),
            };
            if !is_possible {
                return Err(bad("the statistics of rows have the wrong length"));
            }
            entries.push(Some(StoredStatistics {
                summary,
                rows_per_band: grid.rows_per_band(),
                range: 0..len,
                dtype,
                grid,
            }));
        }
        if cursor.remaining() > 0 {
            return Err(bad(
                "statistics are stored for more tensors than the file has",
            ));
        }
        if total != available {
            return Err(bad("the statistics of rows do not fill their section"));
        }
        let mut start = self.bands.start;
        for entry in entries.iter_mut().flatten() {
            entry.range = start..start + entry.range.end;
            start = entry.range.end;
        }
        Ok(entries)
    }
}

/// Returns the checksum that follows the bands: the lower half of their
/// XXH3-64.
#[must_use]
pub fn bands_checksum(bands: &[u8]) -> u32 {
    short_checksum([bands])
}

fn bad(detail: &'static str) -> Error {
    Error::malformed(Rule::ZstnStatistics, detail)
}
