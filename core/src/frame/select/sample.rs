//! A fixed, evenly spread sample of a tensor.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use crate::frame::z4ai::{PlaneCoder, PlaneRecipe, Recipe, Transform};

/// The number of windows that a sample consists of.
const WINDOWS: usize = 16;
/// A sample larger than [`Sample::QUICK`] covers at most 1/n of the tensor:
/// more would take as long as coding.
const MAX_SHARE_DIVISOR: usize = 4;

/// Pieces of a tensor that repeats itself, on which a search is tried.
const PIECES: usize = 4;
const PIECE_BYTES: usize = 128 << 10;

/// The size of a sample.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    window_bytes: usize,
    /// Bytes of each piece of a plane on which a search is tried.
    pub piece_bytes: usize,
}

impl Sample {
    /// Enough to recognise a tensor in which only codes of single bytes gain:
    /// 64 KiB in all.
    pub const QUICK: Self = Self {
        window_bytes: 4 << 10,
        piece_bytes: 4 << 10,
    };
    /// Enough to choose by: up to 512 KiB in all.
    pub const FULL: Self = Self {
        window_bytes: 32 << 10,
        piece_bytes: 16 << 10,
    };

    /// Returns whether a choice may rest on this sample; a smaller one only
    /// decides whether a larger one is needed.
    pub fn is_full(self) -> bool {
        self.window_bytes >= Self::FULL.window_bytes
    }
}

/// The bytes of a tensor that a choice rests on.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// All of them.
    Whole(&'a [u8]),
    /// The [`ranges`] of a tensor that is not in memory, with their bytes.
    Sampled {
        /// Length of the tensor.
        len_bytes: usize,
        /// Ranges of the tensor and the bytes there.
        parts: &'a [(Range<usize>, Vec<u8>)],
    },
}

impl<'a> Content<'a> {
    /// Returns the length of the tensor.
    pub fn len(&self) -> usize {
        match self {
            Self::Whole(tensor) => tensor.len(),
            Self::Sampled { len_bytes, .. } => *len_bytes,
        }
    }

    /// Returns the bytes of these ranges.
    fn at(&self, ranges: Vec<Range<usize>>) -> Vec<&'a [u8]> {
        let at = |range: Range<usize>| match *self {
            Self::Whole(tensor) => &tensor[range],
            Self::Sampled { parts, .. } => {
                let found = parts.iter().find(|(part, _)| *part == range);
                &found.expect("a range of `ranges`").1
            }
        };
        ranges.into_iter().map(at).collect()
    }

    /// Returns the windows of a sample.
    pub fn windows(&self, sample: Sample) -> Vec<&'a [u8]> {
        self.at(window_ranges(self.len(), sample))
    }

    /// Returns long pieces, as evenly spread as the windows of a sample.
    pub fn pieces(&self) -> Vec<&'a [u8]> {
        self.at(piece_ranges(self.len()))
    }
}

/// Returns all ranges of a tensor of `len_bytes` that samples consist of.
pub fn ranges(len_bytes: usize) -> Vec<Range<usize>> {
    let mut ranges = window_ranges(len_bytes, Sample::QUICK);
    ranges.extend(window_ranges(len_bytes, Sample::FULL));
    ranges.extend(piece_ranges(len_bytes));
    ranges
}

/// Returns the windows of a tensor in memory.
pub fn windows(tensor: &[u8], sample: Sample) -> Vec<&[u8]> {
    Content::Whole(tensor).windows(sample)
}

/// Returns long pieces of a tensor in memory.
pub fn pieces(tensor: &[u8]) -> Vec<&[u8]> {
    Content::Whole(tensor).pieces()
}

/// Returns the range of the whole tensor if it is small, and otherwise those of
/// windows at offsets that depend on its length alone, so that the output is the
/// same in every run.
fn window_ranges(len_bytes: usize, sample: Sample) -> Vec<Range<usize>> {
    let max_bytes = len_bytes / WINDOWS / MAX_SHARE_DIVISOR / 8 * 8;
    let window_bytes = sample
        .window_bytes
        .min(max_bytes.max(Sample::QUICK.window_bytes));
    spread(len_bytes, WINDOWS, window_bytes)
}

/// Returns the range of the whole tensor if it is short, and otherwise those of
/// its long pieces.
fn piece_ranges(len_bytes: usize) -> Vec<Range<usize>> {
    spread(len_bytes, PIECES, PIECE_BYTES)
}

/// Returns `count` evenly spread ranges of `each_bytes`, or one of everything if
/// that is not longer.
fn spread(len_bytes: usize, count: usize, each_bytes: usize) -> Vec<Range<usize>> {
    if len_bytes <= count * each_bytes {
        return core::iter::once(0..len_bytes).collect();
    }
    let last = len_bytes - each_bytes;
    let ranges = (0..count).map(|k| {
        // A multiple of 8, so that every range starts at an element.
        let start = last / (count - 1) * k / 8 * 8;
        start..start + each_bytes
    });
    ranges.collect()
}

/// Returns the planes that `transform` makes of the windows, each split into
/// parts of similar bytes.
///
/// A plane has one part, except for mantissas of several bytes, whose upper
/// bytes carry more information than the lower ones.
pub fn planes(windows: &[&[u8]], transform: Transform) -> Vec<Vec<Vec<u8>>> {
    let recipe = Recipe {
        transform,
        planes: vec![PlaneRecipe::Store; transform.planes()],
    };
    let mut planes: Vec<Vec<Vec<u8>>> = transform
        .layouts()
        .map(|layout| vec![Vec::new(); layout.parts])
        .collect();
    for window in windows {
        let (coders, _) = PlaneCoder::all(window, &recipe);
        for (parts, coder) in planes.iter_mut().zip(coders) {
            let part_len = coder.len_bytes() / parts.len();
            for (number, part) in parts.iter_mut().enumerate() {
                let at = part.len();
                part.resize(at + part_len, 0);
                coder.extract(number * part_len, &mut part[at..]);
            }
        }
    }
    planes
}
