//! A fixed, evenly spread part of a tensor.

use alloc::vec;
use alloc::vec::Vec;

use crate::frame::z4ai::{PlaneCoder, PlaneRecipe, Recipe, Transform};

const WINDOWS: usize = 16;
/// No look but a short one takes in more than this part of a tensor: it would
/// cost as much as coding.
const MOST_PART: usize = 4;

/// How long a look is taken at a tensor.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    window_bytes: usize,
    /// Bytes of the pieces of a plane on which a search is tried.
    pub piece_bytes: usize,
}

impl Look {
    /// Whether choices rest on it, rather than the decision to look longer.
    pub fn is_long(self) -> bool {
        self.window_bytes >= LONG.window_bytes
    }
}

/// Enough to see that there is nothing to see.
pub const SHORT: Look = Look {
    window_bytes: 4 << 10,
    piece_bytes: 4 << 10,
};
/// Enough to choose by.
pub const LONG: Look = Look {
    window_bytes: 32 << 10,
    piece_bytes: 16 << 10,
};

/// The whole tensor if it is small, else windows at places that depend on its
/// length alone, so that a sample never makes output differ between runs.
pub fn windows(tensor: &[u8], look: Look) -> Vec<&[u8]> {
    let most_bytes = tensor.len() / WINDOWS / MOST_PART / 8 * 8;
    let window_bytes = look.window_bytes.min(most_bytes.max(SHORT.window_bytes));
    if tensor.len() <= WINDOWS * window_bytes {
        return vec![tensor];
    }
    let last = tensor.len() - window_bytes;
    (0..WINDOWS)
        .map(|k| {
            // In steps of 8, so that every window starts at an element.
            let start = last / (WINDOWS - 1) * k / 8 * 8;
            &tensor[start..start + window_bytes]
        })
        .collect()
}

/// The planes that `transform` makes of the windows, each as the parts that
/// are alike: one, but for mantissas of several bytes, of which the upper ones
/// say more than the lower ones.
pub fn planes(windows: &[&[u8]], transform: Transform) -> Vec<Vec<Vec<u8>>> {
    let recipe = Recipe {
        transform,
        planes: vec![PlaneRecipe::Store; transform.planes()],
    };
    let mut planes: Vec<Vec<Vec<u8>>> = (0..transform.planes())
        .map(|plane| vec![Vec::new(); parts(transform, plane)])
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

fn parts(transform: Transform, plane: usize) -> usize {
    match transform {
        Transform::BitField(format) if plane == 2 => format.mantissa_bytes(),
        _ => 1,
    }
}
