//! The frames of a container, and runs of small frames.

use std::iter;
use std::ops::Range;

use zstn_core::container::zstn::{self, ContainerIndex, ContainerPrefix};

use crate::buffers::Buffer;
use crate::source::Local;
use crate::{Job, Result};

/// A frame, with all spans of the data buffer that it fills. A container may have a
/// hundred thousand frames, so all other properties are looked up or parsed when they
/// are needed.
pub(super) struct Part {
    /// The number of the frame's record in the index.
    pub(super) number: usize,
    pub(super) place: Range<u64>,
    span: Range<u64>,
    /// The spans of the tensors that are aliases of the frame's own tensor.
    more_spans: Vec<Range<u64>>,
}

impl Part {
    pub(super) fn len_bytes(&self) -> u64 {
        self.span.end - self.span.start
    }

    pub(super) fn stored_len_bytes(&self) -> u64 {
        self.place.end - self.place.start
    }

    /// Returns the larger of the frame's stored and decoded lengths.
    fn cost_bytes(&self) -> u64 {
        self.len_bytes().max(self.stored_len_bytes())
    }

    /// Returns whether `span` is the span of the tensor itself rather than of an alias.
    pub(super) fn owns(&self, span: &Range<u64>) -> bool {
        std::ptr::eq(span, &raw const self.span)
    }

    pub(super) fn spans(&self) -> impl Iterator<Item = &Range<u64>> {
        iter::once(&self.span).chain(&self.more_spans)
    }
}

/// The maximum total length of the frames in a run, and of their tensors, in bytes. A
/// run is read with a single read, because separate reads of small frames would take
/// longer.
const RUN_BYTES: u64 = 1 << 20;

/// Groups adjacent small frames into runs; a longer frame is a run of its own.
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

/// The stored bytes of the frames of a run.
pub(super) struct Stored<'a> {
    start: u64,
    bytes: Buffer<'a>,
}

impl<'a> Stored<'a> {
    /// Reads the frames of a run.
    pub(super) fn read(job: &Job, input: &'a Local, run: &[Part]) -> Result<Self> {
        let place = match run {
            [] => 0..0,
            [first, ..] => first.place.start..run[run.len() - 1].place.end,
        };
        Ok(Self {
            start: place.start,
            bytes: input.read_with(&job.buffers, place)?,
        })
    }

    /// Returns the stored bytes of a frame of this run.
    pub(super) fn of(&self, part: &Part) -> &[u8] {
        let place = part.place.start - self.start..part.place.end - self.start;
        zstn_core::bytes::part(&self.bytes, place)
    }
}

/// Returns the frames that an index lists.
pub(super) fn parts(index: &ContainerIndex) -> Vec<Part> {
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

/// Returns the only frame of a container without an index. `len_bytes` is the length of
/// the container and `after_prefix` the 8 bytes after its prefix.
pub(super) fn single(
    after_prefix: &[u8],
    len_bytes: u64,
    prefix: &ContainerPrefix,
) -> zstn_core::Result<Part> {
    Ok(Part {
        number: 0,
        place: zstn::single_frame_range(after_prefix, len_bytes, prefix)?,
        span: 0..prefix.data_len_bytes,
        more_spans: Vec::new(),
    })
}
