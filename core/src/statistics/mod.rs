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

mod bytes;
mod element;
mod figures;
mod grid;
mod moments;
mod runs;

pub use bytes::{read, read_number, write, write_number};
pub use figures::Figures;
pub use grid::Grid;
use moments::Moments;

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

/// The number of bytes that one job processes. Less work would be done before
/// another thread wakes up.
const JOB_BYTES: u64 = 1 << 20;

/// The divisor of the length of every piece but the last of a tensor that is
/// not in memory: whole runs of 256 elements of any dtype.
pub const PIECE_STEP_BYTES: u64 = 8 * runs::RUN as u64;

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
        let (Some(element_bytes), Some(grid)) = (element_bytes, Grid::new(shape)) else {
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

    fn from_moments(bands: &[Moments], dtype: Dtype, grid: &Grid) -> Self {
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
