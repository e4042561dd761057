//! The grids of the types IQ1, IQ2 and IQ3: lists of points with four or eight
//! coordinates, from which a block selects its elements.
//!
//! The points come from ggml; its licence is in `LICENSE-ggml`.
//! `grids.bin` has two bytes for each point, little-endian, with the first
//! coordinate in the lowest bits. A coordinate is the index of its value in the
//! grid's list of values; the values themselves are parameters of ggml.

/// All grids, in the order of the constants below.
const POINTS: &[u8; 9216] = include_bytes!("grids.bin");

/// A grid: where its points are, and the values of their coordinates.
pub(super) struct Grid<const LEVELS: usize> {
    first: usize,
    bits: usize,
    levels: [f32; LEVELS],
}

const TWO_BITS: [f32; 4] = [8.0, 25.0, 43.0, 0.0];

pub(super) const IQ2_XXS: Grid<4> = Grid {
    first: 0,
    bits: 2,
    levels: TWO_BITS,
};
pub(super) const IQ2_XS: Grid<4> = Grid {
    first: 256,
    bits: 2,
    levels: TWO_BITS,
};
pub(super) const IQ2_S: Grid<4> = Grid {
    first: 768,
    bits: 2,
    levels: TWO_BITS,
};
pub(super) const IQ3_XXS: Grid<8> = Grid {
    first: 1792,
    bits: 3,
    levels: [4.0, 12.0, 20.0, 28.0, 36.0, 44.0, 52.0, 62.0],
};
pub(super) const IQ3_S: Grid<8> = Grid {
    first: 2048,
    bits: 3,
    levels: [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0],
};
pub(super) const IQ1: Grid<4> = Grid {
    first: 2560,
    bits: 2,
    levels: [-1.0, 0.0, 1.0, 0.0],
};

impl<const LEVELS: usize> Grid<LEVELS> {
    /// Returns the first `N` coordinates of a point. The fields of a block have
    /// too few bits for a number past the last point; it would give a point
    /// whose coordinates all have index 0.
    pub fn point<const N: usize>(&self, number: usize) -> [f32; N] {
        let at = 2 * (self.first + number);
        let bytes = POINTS.get(at..).and_then(|rest| rest.first_chunk());
        let codes = u16::from_le_bytes(bytes.copied().unwrap_or_default());
        core::array::from_fn(|i| {
            let code = usize::from(codes) >> (self.bits * i);
            self.levels[code % LEVELS]
        })
    }
}
