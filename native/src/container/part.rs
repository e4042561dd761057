//! The frames of a container, and runs of small ones.

use std::iter;
use std::ops::Range;

use zstn_core::container::zstn::{self, Index, Prefix};

use crate::source::{Map, Source};

/// A frame and all the spans it fills. There may be a hundred thousand, so
/// that all else is looked up or parsed anew when it is needed.
pub(super) struct Part {
    /// Number of its record.
    pub(super) number: usize,
    pub(super) place: Range<u64>,
    span: Range<u64>,
    /// Spans of the aliases of its tensor.
    more_spans: Vec<Range<u64>>,
}

impl Part {
    pub(super) fn len_bytes(&self) -> u64 {
        self.span.end - self.span.start
    }

    /// Returns the larger of its lengths, stored and decoded.
    fn cost_bytes(&self) -> u64 {
        self.len_bytes().max(self.place.end - self.place.start)
    }

    /// Returns whether this is the span of the tensor itself, not of an alias.
    pub(super) fn owns(&self, span: &Range<u64>) -> bool {
        std::ptr::eq(span, &raw const self.span)
    }

    pub(super) fn spans(&self) -> impl Iterator<Item = &Range<u64>> {
        iter::once(&self.span).chain(&self.more_spans)
    }
}

/// Most bytes of the small frames, and of their tensors, in a run. One job works
/// on a run and then releases it as a whole, since the system maps and releases
/// more than a small frame at a time.
const RUN_BYTES: u64 = 1 << 20;

/// Groups adjacent small frames into runs; a longer frame is a run by itself.
pub(super) fn runs(parts: &[Part]) -> Vec<&[Part]> {
    let mut len_bytes = 0;
    let is_together = |before: &Part, part: &Part| {
        len_bytes = before.cost_bytes().saturating_add(len_bytes);
        let is_room = len_bytes.saturating_add(part.cost_bytes()) <= RUN_BYTES;
        let is_together = is_room && part.place.start == before.place.end;
        if !is_together {
            len_bytes = 0;
        }
        is_together
    };
    parts.chunk_by(is_together).collect()
}

/// Returns the range of the file that the frames of a run take.
pub(super) fn hull(run: &[Part]) -> Range<u64> {
    match run {
        [] => 0..0,
        [first, ..] => first.place.start..run[run.len() - 1].place.end,
    }
}

/// Returns the frames of an index.
pub(super) fn parts(index: &Index) -> Vec<Part> {
    let records = index.records();
    let mut parts: Vec<Part> = Vec::new();
    let mut by_record = vec![0; records.len()];
    for (number, record) in records.iter().enumerate() {
        let (owner, place) = index.frame(number);
        if owner == number {
            by_record[number] = parts.len();
            parts.push(Part {
                number,
                place,
                span: record.span.clone(),
                more_spans: Vec::new(),
            });
        }
    }
    for (number, record) in records.iter().enumerate() {
        let owner = index.frame(number).0;
        if owner != number {
            parts[by_record[owner]].more_spans.push(record.span.clone());
        }
    }
    parts
}

/// Returns the only frame of a container without an index.
pub(super) fn single(input: &Map, prefix: &Prefix) -> zstn_core::Result<Part> {
    let rest = zstn_core::bytes::part(input, prefix.end()..input.len_bytes());
    Ok(Part {
        number: 0,
        place: zstn::single_frame_range(rest, prefix)?,
        span: 0..prefix.data_len_bytes,
        more_spans: Vec::new(),
    })
}
