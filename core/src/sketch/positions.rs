//! The positions of the elements that a sketch contains (docs/formats/sketch.md
//! 2). They depend only on the dtype and the length of the tensor, so that two
//! sketches contain the same elements.

use alloc::vec::Vec;
use core::ops::Range;

use super::element_bytes;
use crate::dtype::Dtype;

/// The number of elements in a run. A run lies within a few adjacent bytes,
/// which a reader fetches for the price of one element.
const RUN_ELEMENTS: u64 = 16;
/// The number of elements up to which a tensor is sampled whole.
const WHOLE_ELEMENTS: u64 = 64;
const MIN_RUNS: u64 = 4;
const MAX_RUNS: u64 = 64;
/// The number of runs is the square root of the number of elements divided by
/// this.
const ROOT_PER_RUN: u64 = 32;
/// The largest number of windows that contain the runs. Each window is one
/// request.
const MAX_WINDOWS: u64 = 8;
/// The tensor length in bytes per window, so that small tensors cost one
/// request.
const BYTES_PER_WINDOW: u64 = 256 << 10;
/// The divisor for the position of a window in its segment: the space before
/// the window is the free space of the segment divided by this. A window in the
/// middle would need two blocks of a packed file, whose blocks meet at the
/// halves of round lengths.
const WINDOW_PLACE: u64 = 3;
/// The longest window in bytes.
const WINDOW_BYTES: u64 = 32 << 10;
/// 2^64 divided by the golden ratio. Its multiples modulo 2^64 are spread
/// evenly and do not coincide with the period of a matrix.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns the byte ranges of a tensor of `len_bytes` bytes that a sketch
/// contains, in ascending order and without overlap.
#[must_use]
pub fn runs(dtype: Dtype, len_bytes: u64) -> Vec<Range<u64>> {
    let unit = element_bytes(dtype) as u64;
    let elements = len_bytes / unit;
    if elements <= WHOLE_ELEMENTS {
        return Vec::from_iter((elements > 0).then(|| 0..elements * unit));
    }
    let (windows, runs_each) = counts(len_bytes, elements);
    let segment = elements / windows;
    let window = segment.min(WINDOW_BYTES / unit);
    let slot = window / runs_each;
    let mut runs = Vec::new();
    for number in 0..windows * runs_each {
        let (in_window, of_window) = (number % runs_each, number / runs_each);
        let start = of_window * segment + (segment - window) / WINDOW_PLACE + in_window * slot;
        let fraction = (number + 1).wrapping_mul(SPREAD) >> 32;
        let start = start + ((fraction * (slot - RUN_ELEMENTS + 1)) >> 32);
        runs.push(start * unit..(start + RUN_ELEMENTS) * unit);
    }
    runs
}

/// Returns the number of windows, and the number of runs in each.
fn counts(len_bytes: u64, elements: u64) -> (u64, u64) {
    let windows = (len_bytes / BYTES_PER_WINDOW).clamp(1, MAX_WINDOWS);
    let runs = (elements.isqrt() / ROOT_PER_RUN).clamp(MIN_RUNS, MAX_RUNS);
    (windows, runs.div_ceil(windows))
}

/// Returns the total length of [`runs`] in bytes.
pub fn len_bytes(dtype: Dtype, len_bytes: u64) -> u64 {
    let unit = element_bytes(dtype) as u64;
    let elements = len_bytes / unit;
    if elements <= WHOLE_ELEMENTS {
        return elements * unit;
    }
    let (windows, runs_each) = counts(len_bytes, elements);
    windows * runs_each * RUN_ELEMENTS * unit
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn runs_are_ascending_inside_and_as_long_as_said() {
        let lens = (0..600)
            .chain((9..62).flat_map(|shift| [(1 << shift) - 8, 1 << shift, (1 << shift) + 24]));
        for elements in lens {
            for dtype in [Dtype::U8, Dtype::F4, Dtype::Bf16, Dtype::F32, Dtype::F64] {
                let len = elements / 8 * 8;
                let runs = runs(dtype, len);
                let mut end = 0;
                for run in &runs {
                    assert!(run.start >= end && run.end > run.start, "{dtype} {len}");
                    end = run.end;
                }
                assert!(end <= len);
                let total: u64 = runs.iter().map(|run| run.end - run.start).sum();
                assert_eq!(total, len_bytes(dtype, len), "{dtype} {len}");
                assert!(runs.len() <= 64);
            }
        }
    }

    #[test]
    fn runs_lie_in_few_windows() {
        // A reader joins requests that are less than 64 KiB apart.
        let runs = runs(Dtype::Bf16, 1 << 28);
        let gaps = runs
            .windows(2)
            .filter(|pair| pair[1].start - pair[0].end > 65536);
        assert_eq!((runs.len(), gaps.count()), (64, 7));
    }

    #[test]
    fn positions_are_the_documented_ones() {
        assert_eq!(runs(Dtype::F32, 256), vec![0..256]);
        // 100 elements: slots of 25, with (multiple * 10) >> 32 of jitter.
        let starts: Vec<u64> = runs(Dtype::U8, 100).iter().map(|run| run.start).collect();
        assert_eq!(starts, [6, 27, 58, 79]);
    }
}
