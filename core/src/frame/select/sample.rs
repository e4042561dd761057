//! A fixed, evenly spread part of a tensor.

use alloc::vec;
use alloc::vec::Vec;

use super::plane_count;
use crate::frame::z4ai::{PlaneCoder, PlaneRecipe, Recipe, Transform};

const WINDOWS: usize = 16;
const WINDOW_BYTES: usize = 32 << 10;

/// The whole tensor if it is small, else windows at places that depend on its
/// length alone, so that a sample never makes output differ between runs.
pub fn windows(tensor: &[u8]) -> Vec<&[u8]> {
    if tensor.len() <= WINDOWS * WINDOW_BYTES {
        return vec![tensor];
    }
    let last = tensor.len() - WINDOW_BYTES;
    (0..WINDOWS)
        .map(|k| {
            // In steps of 8, so that every window starts at an element.
            let start = last / (WINDOWS - 1) * k / 8 * 8;
            &tensor[start..start + WINDOW_BYTES]
        })
        .collect()
}

/// The planes that `transform` makes of the windows, one after another.
pub fn planes(windows: &[&[u8]], transform: Transform) -> Vec<Vec<u8>> {
    let recipe = Recipe {
        transform,
        planes: vec![PlaneRecipe::Store; plane_count(transform)],
    };
    let mut planes = vec![Vec::new(); plane_count(transform)];
    for window in windows {
        let (coders, _) = PlaneCoder::all(window, &recipe);
        for (plane, coder) in planes.iter_mut().zip(coders) {
            let at = plane.len();
            plane.resize(at + coder.len_bytes(), 0);
            coder.extract(0, &mut plane[at..]);
        }
    }
    planes
}
