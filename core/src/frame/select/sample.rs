//! A fixed, evenly spread sample of a tensor.

use alloc::vec;
use alloc::vec::Vec;

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

/// Returns the whole tensor if it is small, and otherwise windows at offsets
/// that depend on its length alone, so that the output is the same in every
/// run.
pub fn windows(tensor: &[u8], sample: Sample) -> Vec<&[u8]> {
    let max_bytes = tensor.len() / WINDOWS / MAX_SHARE_DIVISOR / 8 * 8;
    let window_bytes = sample
        .window_bytes
        .min(max_bytes.max(Sample::QUICK.window_bytes));
    if tensor.len() <= WINDOWS * window_bytes {
        return vec![tensor];
    }
    let last = tensor.len() - window_bytes;
    (0..WINDOWS)
        .map(|k| {
            // A multiple of 8, so that every window starts at an element.
            let start = last / (WINDOWS - 1) * k / 8 * 8;
            &tensor[start..start + window_bytes]
        })
        .collect()
}

/// Returns the whole tensor if it is short, and otherwise long pieces of it, as
/// evenly spread as the windows of a sample.
pub fn pieces(tensor: &[u8]) -> Vec<&[u8]> {
    if tensor.len() <= PIECES * PIECE_BYTES {
        return vec![tensor];
    }
    let last = tensor.len() - PIECE_BYTES;
    (0..PIECES)
        .map(|k| {
            let start = last / (PIECES - 1) * k / 8 * 8;
            &tensor[start..start + PIECE_BYTES]
        })
        .collect()
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
