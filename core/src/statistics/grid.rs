//! The division of a tensor into bands, the groups of rows that have figures.

use core::ops::Range;

/// The number of rows in a band, unless the matrix is narrow.
const ROWS_PER_BAND: u64 = 256;

/// The least number of elements in a band. It limits the size of the figures to
/// less than 0.02 % of the packed elements; bands of narrow matrices therefore
/// have more rows.
const MIN_ELEMENTS: u64 = 1 << 16;

/// The rows of a tensor and their division into bands. A row is a run of
/// elements along the last dimension; a vector or a scalar is a single row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    rows: u64,
    columns: u64,
    rows_per_band: u64,
}

impl Grid {
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
        let grid = Grid::new(shape).expect("elements");
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
        let grid = Grid::new(&[1000, 300]).expect("elements");
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
            assert_eq!(Grid::new(shape), None, "{shape:?}");
        }
    }
}
