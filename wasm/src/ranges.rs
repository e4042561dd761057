//! Conversion of file ranges to JavaScript numbers.

use std::ops::Range;

/// Returns ranges of numbered files as `[file, offset, length, …]`.
pub fn triples(ranges: impl IntoIterator<Item = (usize, Range<u64>)>) -> Vec<f64> {
    let ranges = ranges.into_iter();
    ranges
        .flat_map(|(file, range)| {
            let len = range.end - range.start;
            [file as f64, range.start as f64, len as f64]
        })
        .collect()
}
