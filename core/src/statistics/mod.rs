//! Statistics of the elements of a tensor and of every band of its rows:
//! extremes, mean, root mean square, and counts of zeros, NaN and infinities
//! (docs/formats/zstn-integrity.md 7). Packers compute them while the tensor is
//! in memory, so that a reader can show a model without reading its weights.
//!
//! The format prescribes the order of summation, so that every packer computes
//! the same figures to the last bit.

use alloc::vec::Vec;
use core::convert::Infallible;
use core::ops::Range;

use crate::TensorRef;
use crate::bytes::part;
use crate::dtype::Dtype;
use crate::engine::Engine;
use moments::Moments;

mod difference;
mod element;
mod figures;
mod float_sums;
mod moments;

pub use difference::{Difference, DifferenceSize};
pub(crate) use figures::read_number;
pub use figures::{Figures, read, write, write_number};

/// The statistics of a tensor.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Statistics {
    /// The figures of all elements.
    pub summary: Figures,
    /// The number of rows in a band. The last band can have fewer.
    pub rows_per_band: u64,
    /// The figures of each band, in the order of the rows. A tensor with a
    /// single band has its summary here as well.
    pub bands: Vec<Figures>,
}

/// The number of bytes that one job processes. A smaller job would be done
/// before another thread wakes up.
const JOB_BYTES: u64 = 1 << 20;

/// The length in bytes of 256 elements of the widest dtype. If a tensor is not
/// in memory, the length of every piece of it but the last must be a multiple
/// of this number.
pub const PIECE_STEP_BYTES: u64 = 8 * float_sums::RUN as u64;

impl Statistics {
    /// Computes the statistics of a tensor. Returns `None` for a tensor without
    /// elements, of unknown dtype, or of a dtype without figures (see
    /// [`has_figures`]).
    #[must_use]
    pub fn of<E: Engine>(engine: &E, tensor: TensorRef) -> Option<Self> {
        let dtype = tensor.dtype?;
        let feed = |range: Range<u64>, sink: &mut dyn FnMut(&[u8])| {
            sink(part(tensor.bytes, range));
            Ok::<_, Infallible>(())
        };
        let len_bytes = tensor.bytes.len() as u64;
        let Ok(statistics) = Self::of_fed(engine, dtype, tensor.shape, len_bytes, &feed);
        statistics
    }

    /// Computes the statistics of a tensor of `len_bytes` that is not in
    /// memory. `feed` passes the bytes of a range to its second argument, in
    /// order, in pieces whose lengths are multiples of [`PIECE_STEP_BYTES`]
    /// except for the last one. It is called on several threads.
    ///
    /// # Errors
    /// The errors of `feed`, such as a failed read.
    pub fn of_fed<E: Engine, F: Send>(
        engine: &E,
        dtype: Dtype,
        shape: &[u64],
        len_bytes: u64,
        feed: &(impl Fn(Range<u64>, &mut dyn FnMut(&[u8])) -> Result<(), F> + Sync),
    ) -> Result<Option<Self>, F> {
        let element_bytes = dtype.len_bytes().filter(|_| has_figures(dtype));
        let (Some(element_bytes), Some(grid)) = (element_bytes, BandGrid::new(shape)) else {
            return Ok(None);
        };
        let element_bytes = element_bytes as u64;
        if grid.count().checked_mul(element_bytes) != Some(len_bytes) {
            return Ok(None);
        }
        let count = grid.bands();
        let band_bytes = grid.elements(0).end * element_bytes;
        let per_job = (JOB_BYTES / band_bytes).max(1);
        let starts = (0..count).step_by(crate::bytes::index(per_job)).collect();
        let bands = engine.map(starts, |start: u64| {
            let numbers = start..count.min(start + per_job);
            let band = |number| {
                let elements = grid.elements(number);
                let bytes = elements.start * element_bytes..elements.end * element_bytes;
                Moments::of_fed(&|sink| feed(bytes.clone(), sink), dtype)
            };
            numbers.map(band).collect::<Result<Vec<_>, F>>()
        });
        let bands = bands.into_iter().collect::<Result<Vec<_>, F>>()?;
        Ok(Some(Self::from_moments(&bands.concat(), dtype, &grid)))
    }

    /// Creates statistics from the figures in a file.
    #[must_use]
    pub fn new(summary: Figures, rows_per_band: u64, bands: Vec<Figures>) -> Self {
        Self {
            summary,
            rows_per_band,
            bands,
        }
    }

    fn from_moments(bands: &[Moments], dtype: Dtype, grid: &BandGrid) -> Self {
        Self {
            summary: Moments::merge(bands).figures(dtype),
            rows_per_band: grid.rows_per_band(),
            bands: bands.iter().map(|band| band.figures(dtype)).collect(),
        }
    }
}

/// Returns whether tensors of this dtype have figures. Dtypes smaller than a
/// byte and complex numbers have none.
#[must_use]
pub fn has_figures(dtype: Dtype) -> bool {
    dtype.len_bytes().is_some() && dtype != Dtype::C64
}

/// The number of rows in a band, unless the matrix is narrow.
const ROWS_PER_BAND: u64 = 256;

/// The least number of elements in a band. It limits the size of the figures to
/// less than 0.02 % of the packed elements; bands of narrow matrices therefore
/// have more rows.
const MIN_ELEMENTS: u64 = 1 << 16;

/// The rows of a tensor and their division into bands. A row is a run of
/// elements along the last dimension; a vector or a scalar is a single row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BandGrid {
    rows: u64,
    columns: u64,
    rows_per_band: u64,
}

impl BandGrid {
    /// Divides a tensor of this shape into bands; `None` if it has no elements,
    /// or more than 64 bits can count.
    #[must_use]
    pub fn new(shape: &[u64]) -> Option<Self> {
        let (columns, outer) = shape.split_last().unwrap_or((&1, &[]));
        let rows = outer
            .iter()
            .try_fold(1u64, |rows, &n| rows.checked_mul(n))?;
        if rows.checked_mul(*columns)? == 0 {
            return None;
        }
        let mut rows_per_band = ROWS_PER_BAND;
        while rows_per_band < rows && rows_per_band.saturating_mul(*columns) < MIN_ELEMENTS {
            rows_per_band *= 2;
        }
        Some(Self {
            rows,
            columns: *columns,
            rows_per_band,
        })
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.rows * self.columns
    }

    /// Returns the number of rows in every band but the last, which can have
    /// fewer: 256, or the smallest 256 · 2ⁿ that gives at least 65 536
    /// elements.
    #[must_use]
    pub fn rows_per_band(&self) -> u64 {
        self.rows_per_band
    }

    /// Returns the number of bands, which is at least one.
    #[must_use]
    pub fn bands(&self) -> u64 {
        self.rows.div_ceil(self.rows_per_band)
    }

    /// Returns the range of elements in band `number`.
    #[must_use]
    pub fn elements(&self, number: u64) -> Range<u64> {
        let row = |band: u64| self.rows.min(band.saturating_mul(self.rows_per_band));
        row(number) * self.columns..row(number.saturating_add(1)) * self.columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bands(shape: &[u64]) -> (u64, u64) {
        let grid = BandGrid::new(shape).expect("elements");
        (grid.rows_per_band(), grid.bands())
    }

    #[test]
    fn vectors_are_one_band_and_narrow_matrices_have_longer_ones() {
        assert_eq!(bands(&[]), (256, 1));
        assert_eq!(bands(&[1 << 30]), (256, 1));
        assert_eq!(bands(&[256, 9]), (256, 1));
        assert_eq!(bands(&[257, 4096]), (256, 2));
        assert_eq!(bands(&[30522, 384]), (256, 120));
        assert_eq!(bands(&[2, 300, 256]), (256, 3));
        assert_eq!(bands(&[512, 512, 3, 3]), (32768, 24));
        assert_eq!(bands(&[70_000, 1]), (65536, 2));
        assert_eq!(bands(&[1000, 1]), (1024, 1));
        assert_eq!(bands(&[u64::MAX, 1]), (65536, 1 << 48));
    }

    #[test]
    fn bands_cover_every_element_once() {
        let grid = BandGrid::new(&[1000, 300]).expect("elements");
        let ends: Vec<_> = (0..grid.bands()).map(|band| grid.elements(band)).collect();
        assert_eq!(
            ends,
            [0..76800, 76800..153600, 153600..230400, 230400..300_000]
        );
    }

    #[test]
    fn nothing_and_too_much_have_no_bands() {
        for shape in [
            &[0][..],
            &[3, 0],
            &[0, 3],
            &[u64::MAX, 2],
            &[u64::MAX, 2, 0],
        ] {
            assert_eq!(BandGrid::new(shape), None, "{shape:?}");
        }
    }
}
