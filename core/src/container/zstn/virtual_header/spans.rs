//! Divides the bytes between the tensors of an original into spans.

use alloc::vec::Vec;
use core::ops::Range;

/// The longest span without views, in bytes.
const PLAIN_SPAN_BYTES: u64 = 16 << 20;

/// The longest span with views, in bytes, unless views overlap. Reading a view
/// fetches its span.
const VIEWED_SPAN_BYTES: u64 = 256 << 10;

/// Bytes before and after views are a span of their own from this length on, so
/// that reading a view does not fetch them.
const APART_BYTES: u64 = 4096;

/// Returns the spans that fill `gap`. No span ends inside one of `views`, the
/// ranges of views in the gap, which do not overlap and are in ascending order.
pub(super) fn divide(gap: &Range<u64>, views: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut spans = Vec::new();
    let mut start = gap.start;
    // The end of the last view of the span that begins at `start`.
    let mut viewed_end: Option<u64> = None;
    for view in views {
        let before = view.start - viewed_end.unwrap_or(start);
        // The bytes before the first view of a file are its header.
        let is_header = viewed_end.is_none() && start == 0;
        if before >= APART_BYTES || is_header {
            if let Some(end) = viewed_end.take() {
                push(&mut spans, start..end);
                start = end;
            }
            push_plain(&mut spans, start..view.start);
            start = view.start;
        } else if let Some(end) = viewed_end
            && view.end - start > VIEWED_SPAN_BYTES
        {
            push(&mut spans, start..end);
            start = end;
        }
        viewed_end = Some(view.end);
    }
    if let Some(end) = viewed_end {
        let is_apart = gap.end - end >= APART_BYTES || gap.end - start > VIEWED_SPAN_BYTES;
        let end = if is_apart { end } else { gap.end };
        push(&mut spans, start..end);
        start = end;
    }
    push_plain(&mut spans, start..gap.end);
    spans
}

fn push(spans: &mut Vec<Range<u64>>, span: Range<u64>) {
    if !span.is_empty() {
        spans.push(span);
    }
}

fn push_plain(spans: &mut Vec<Range<u64>>, Range { mut start, end }: Range<u64>) {
    while start < end {
        let next = end.min(start.saturating_add(PLAIN_SPAN_BYTES));
        spans.push(start..next);
        start = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_fill_the_gap_and_cut_no_view() {
        const KIB: u64 = 1 << 10;
        let views = |step: u64, len: u64, count: u64| -> Vec<Range<u64>> {
            (0..count)
                .map(|n| 500 + n * step..500 + n * step + len)
                .collect()
        };
        for (start, views) in [
            (0, views(64, 64, 9000)),
            (100, views(64, 60, 9000)),
            (0, views(10_000, 4000, 100)),
            (500, views(KIB, 900, 700)),
            (0, views(400 * KIB, 300 * KIB, 3)),
            (0, Vec::new()),
        ] {
            let end = views.last().map_or(40 << 20, |last| last.end) + 3000;
            let spans = divide(&(start..end), &views);
            let mut at = start;
            for span in &spans {
                assert_eq!(span.start, at);
                at = span.end;
                let held: Vec<_> = views
                    .iter()
                    .filter(|view| view.start < span.end && view.end > span.start)
                    .collect();
                assert!(
                    held.iter()
                        .all(|v| v.start >= span.start && v.end <= span.end)
                );
                let most = match held.len() {
                    0 => PLAIN_SPAN_BYTES,
                    1 => (held[0].end - held[0].start + APART_BYTES).max(VIEWED_SPAN_BYTES),
                    _ => VIEWED_SPAN_BYTES,
                };
                assert!(span.end - span.start <= most, "{span:?}");
            }
            assert_eq!(at, end);
            if start == 0 && !views.is_empty() {
                assert_eq!(spans[0], 0..500);
            }
        }
    }
}
