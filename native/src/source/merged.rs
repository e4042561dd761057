//! Merges ranges that are close together into one read.

use std::borrow::Cow;
use std::ops::Range;

#[cfg(feature = "store")]
use super::parallel::{self, READS_AT_ONCE};
#[cfg(feature = "store")]
use super::{Source, check_inside};
#[cfg(feature = "store")]
use crate::Result;

/// The longest gap between two ranges of one request, in bytes. On most connections,
/// transferring these bytes takes less time than another request.
const MAX_GAP_BYTES: u64 = 64 << 10;

/// The maximum length of a request for several ranges, in bytes. In addition to the
/// results, each active request needs a buffer of this length.
const MAX_MERGED_BYTES: u64 = 16 << 20;

/// Reads `ranges` of a remote `source`. Ranges that are close together are read by one
/// call of `read`, and several of these calls run at the same time.
///
/// # Errors
/// The errors of the source; a range that is not inside it.
#[cfg(feature = "store")]
pub(super) fn read<'a>(
    source: &dyn Source,
    ranges: &[Range<u64>],
    read: impl Fn(Range<u64>) -> Result<Cow<'a, [u8]>> + Sync,
) -> Result<Vec<Cow<'a, [u8]>>> {
    for range in ranges {
        check_inside(source, range)?;
    }
    let merged = MergedRange::of(ranges);
    let read = parallel::run(merged.len(), READS_AT_ONCE, |number| {
        let merged = &merged[number];
        Ok(merged.split(ranges, read(merged.range.clone())?))
    })?;
    Ok(in_order(ranges.len(), read))
}

/// Returns the bytes of `count` ranges in the order of their indices.
pub(super) fn in_order<'a>(count: usize, read: Vec<Vec<Part<'a>>>) -> Vec<Cow<'a, [u8]>> {
    let mut parts = vec![Cow::Borrowed(&[][..]); count];
    for (number, bytes) in read.into_iter().flatten() {
        parts[number] = bytes;
    }
    parts
}

/// The index of a requested range, and the bytes of that range.
pub(super) type Part<'a> = (usize, Cow<'a, [u8]>);

/// A range to read, with the requested ranges inside it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MergedRange {
    pub(super) range: Range<u64>,
    /// The indices of the requested ranges.
    reads: Vec<usize>,
}

impl MergedRange {
    /// Merges the `ranges` that are not empty and close together, in file order.
    pub(super) fn of(ranges: &[Range<u64>]) -> Vec<Self> {
        merge(ranges, MAX_GAP_BYTES, MAX_MERGED_BYTES)
    }

    /// Divides `bytes`, the bytes of this range, into the bytes of the requested ranges
    /// inside it.
    pub(super) fn split<'a>(&self, ranges: &[Range<u64>], bytes: Cow<'a, [u8]>) -> Vec<Part<'a>> {
        if let [read] = self.reads[..] {
            return vec![(read, bytes)];
        }
        let parts = self.reads.iter().map(|&read| {
            let Range { start, end } = ranges[read];
            let part = start - self.range.start..end - self.range.start;
            let part = zstn_core::bytes::part(&bytes, part);
            (read, Cow::Owned(part.to_vec()))
        });
        parts.collect()
    }
}

/// Merges the `ranges` that are not empty, in file order. A gap within a merged range
/// is at most `max_gap_bytes` long. A merged range is at most `max_merged_bytes` long,
/// unless one of its ranges contains all others.
fn merge(ranges: &[Range<u64>], max_gap_bytes: u64, max_merged_bytes: u64) -> Vec<MergedRange> {
    let mut numbers: Vec<usize> = (0..ranges.len()).collect();
    numbers.retain(|&number| !ranges[number].is_empty());
    // Among ranges with the same start, the longest comes first, since it contains the
    // others.
    numbers.sort_by_key(|&number| (ranges[number].start, u64::MAX - ranges[number].end));
    let mut merged: Vec<MergedRange> = Vec::new();
    for number in numbers {
        let range = ranges[number].clone();
        match merged.last_mut() {
            Some(MergedRange { range: last, reads })
                if range.end <= last.end
                    || (range.start.saturating_sub(last.end) <= max_gap_bytes
                        && range.end - last.start <= max_merged_bytes) =>
            {
                last.end = last.end.max(range.end);
                reads.push(number);
            }
            _ => merged.push(MergedRange {
                range,
                reads: vec![number],
            }),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_ranges_are_merged_up_to_a_length() {
        let merged = |ranges: &[Range<u64>]| -> Vec<(Range<u64>, Vec<usize>)> {
            let merged = merge(ranges, 10, 100).into_iter();
            merged.map(|merged| (merged.range, merged.reads)).collect()
        };
        assert_eq!(merged(&[]), []);
        assert_eq!(merged(&[5..5, 0..0]), []);
        // In file order, with gaps of at most 10.
        assert_eq!(
            merged(&[40..50, 0..10, 20..30, 61..70]),
            [(0..50, vec![1, 2, 0]), (61..70, vec![3])]
        );
        // At most 100 long, except for ranges inside another one.
        assert_eq!(
            merged(&[0..60, 60..101, 70..80]),
            [(0..60, vec![0]), (60..101, vec![1, 2])]
        );
        assert_eq!(
            merged(&[0..9, 0..500, 3..400, 505..506]),
            [(0..500, vec![1, 0, 2]), (505..506, vec![3])]
        );
    }
}
