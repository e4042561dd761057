//! Fixed, evenly spaced samples of a tensor.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use crate::frame::z4ai::{PlaneCoder, PlaneRecipe, Recipe, Transform};

/// The number of windows of a sample.
const WINDOWS: usize = 16;
/// A sample larger than [`Sample::QUICK`] covers at most 1/n of the tensor;
/// evaluating more would take as long as encoding.
const MAX_SHARE_DIVISOR: usize = 4;

/// Number and length of the long pieces on which a search is tried if the
/// content of a tensor repeats.
const PIECES: usize = 4;
const PIECE_BYTES: usize = 128 << 10;

/// The size of a sample.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    window_bytes: usize,
    /// Length in bytes of each piece of a plane on which a search is tried.
    pub piece_bytes: usize,
}

impl Sample {
    /// A sample of 64 KiB in total. It is large enough to recognise a tensor
    /// that only byte codes can compress.
    pub(crate) const QUICK: Self = Self {
        window_bytes: 4 << 10,
        piece_bytes: 4 << 10,
    };
    /// A sample of up to 512 KiB in total, on which a choice can be based.
    pub const FULL: Self = Self {
        window_bytes: 32 << 10,
        piece_bytes: 16 << 10,
    };

    /// Returns whether a choice may be based on this sample. A smaller one only
    /// decides whether a larger one is needed.
    pub fn is_full(self) -> bool {
        self.window_bytes >= Self::FULL.window_bytes
    }
}

/// The bytes of a tensor on which a choice is based.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// All bytes of the tensor.
    Whole(&'a [u8]),
    /// The [`ranges`] of a tensor that is not in memory as a whole.
    Sampled {
        /// Length of the tensor in bytes.
        len_bytes: usize,
        /// The ranges and their bytes.
        parts: &'a [(Range<usize>, Vec<u8>)],
    },
}

impl<'a> Content<'a> {
    /// Returns the length of the tensor in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Whole(tensor) => tensor.len(),
            Self::Sampled { len_bytes, .. } => *len_bytes,
        }
    }

    /// Returns the bytes of each of `ranges`.
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

    /// Returns the windows of a sample. If the content consists of blocks of
    /// `block_bytes`, each window begins with a block.
    pub fn windows(&self, sample: Sample, block_bytes: Option<u8>) -> Vec<&'a [u8]> {
        let ranges = window_ranges(self.len(), sample);
        let windows = self.at(ranges.clone());
        let Some(width) = block_bytes.map(usize::from) else {
            return windows;
        };
        let cut = ranges.iter().zip(windows).map(|(range, window)| {
            let skipped = range.start.next_multiple_of(width) - range.start;
            window.get(skipped..).unwrap_or_default()
        });
        cut.collect()
    }

    /// Returns the long pieces, which are evenly spaced like the windows of a
    /// sample.
    pub fn pieces(&self) -> Vec<&'a [u8]> {
        self.at(piece_ranges(self.len()))
    }
}

/// Returns all ranges that samples of a tensor of `len_bytes` bytes consist of.
pub fn ranges(len_bytes: usize) -> Vec<Range<usize>> {
    let mut ranges = window_ranges(len_bytes, Sample::QUICK);
    ranges.extend(window_ranges(len_bytes, Sample::FULL));
    ranges.extend(piece_ranges(len_bytes));
    ranges
}

/// Returns the windows of a tensor that is in memory.
pub fn windows(tensor: &[u8], sample: Sample) -> Vec<&[u8]> {
    Content::Whole(tensor).windows(sample, None)
}

/// Returns the long pieces of a tensor that is in memory.
pub fn pieces(tensor: &[u8]) -> Vec<&[u8]> {
    Content::Whole(tensor).pieces()
}

/// Returns the ranges of the windows: one that covers all of a small tensor,
/// otherwise [`WINDOWS`] ranges whose offsets depend only on the length, so that
/// the output is the same in every run.
fn window_ranges(len_bytes: usize, sample: Sample) -> Vec<Range<usize>> {
    let max_bytes = len_bytes / WINDOWS / MAX_SHARE_DIVISOR / 8 * 8;
    let window_bytes = sample
        .window_bytes
        .min(max_bytes.max(Sample::QUICK.window_bytes));
    spread(len_bytes, WINDOWS, window_bytes)
}

/// Returns the ranges of the long pieces: one that covers all of a short tensor,
/// otherwise [`PIECES`] ranges.
fn piece_ranges(len_bytes: usize) -> Vec<Range<usize>> {
    spread(len_bytes, PIECES, PIECE_BYTES)
}

/// Returns `count` evenly spaced ranges of `each_bytes` bytes, or a single range of all
/// bytes if the ranges together would not be shorter.
fn spread(len_bytes: usize, count: usize, each_bytes: usize) -> Vec<Range<usize>> {
    if len_bytes <= count * each_bytes {
        return core::iter::once(0..len_bytes).collect();
    }
    let last = len_bytes - each_bytes;
    let ranges = (0..count).map(|k| {
        // A multiple of 8, so that every range starts at an element boundary.
        let start = last / (count - 1) * k / 8 * 8;
        start..start + each_bytes
    });
    ranges.collect()
}

/// Applies `transform` to the windows and returns the parts of each plane.
///
/// A plane has one part, except that mantissas of several bytes have one part
/// per byte, since the upper bytes carry more information than the lower ones.
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
