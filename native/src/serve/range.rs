//! The part of a file that a request wants (RFC 9110, 14).

use std::ops::Bound;

use headers::Range;

/// The part to send.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Whole,
    None,
    Some(u64, u64),
}

/// The part of `len` bytes asked for. Several ranges at once are answered
/// with the whole file, as any server may.
pub(super) fn part(range: &Range, len: u64) -> Wanted {
    let mut ranges = range.satisfiable_ranges(len);
    match (ranges.next(), ranges.next()) {
        (Some((from, to)), None) => {
            let start = match from {
                Bound::Included(start) => start,
                Bound::Excluded(before) => before + 1,
                Bound::Unbounded => 0,
            };
            let end = match to {
                Bound::Included(last) => last.saturating_add(1).min(len),
                Bound::Excluded(end) => end.min(len),
                Bound::Unbounded => len,
            };
            if start < end {
                Wanted::Some(start, end)
            } else {
                Wanted::None
            }
        }
        (None, _) => Wanted::None,
        _ => Wanted::Whole,
    }
}
