//! Reads ranges of the file that a container with a virtual header restores.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use zstn_core::bytes::{buffer, index};

use super::Container;
use crate::buffers::Buffer;
use crate::source::Source;
use crate::{Error, Job, Result};

/// The file that a container restores, as a source whose bytes are decoded when they are
/// read. The span that was decoded last is retained.
pub(crate) struct RestoredRanges<'a> {
    job: &'a Job<'a>,
    container: &'a Container<'a>,
    /// The spans of the file with the numbers of their parts, in ascending order.
    spans: Vec<(Range<u64>, usize)>,
    last: Mutex<Option<(usize, Arc<Buffer<'static>>)>>,
}

impl<'a> RestoredRanges<'a> {
    /// Reads from a container whose restored file is its data buffer.
    pub(crate) fn new(job: &'a Job<'a>, container: &'a Container<'a>) -> Self {
        let parts = container.parts.iter().enumerate();
        let spans =
            parts.flat_map(|(number, part)| part.spans().map(move |span| (span.clone(), number)));
        let mut spans: Vec<_> = spans.collect();
        spans.sort_by_key(|(span, _)| (span.start, span.end));
        Self {
            job,
            container,
            spans,
            last: Mutex::default(),
        }
    }

    /// Returns the error for a read up to the offset `end_bytes`.
    fn ends_before(&self, end_bytes: u64) -> Error {
        Error::Usage(format!(
            "the file that {} restores ends before byte {end_bytes}",
            self.name()
        ))
    }

    fn decoded(&self, number: usize) -> Result<Arc<Buffer<'static>>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bytes)) = last.as_ref().filter(|(of, _)| *of == number) {
            return Ok(Arc::clone(bytes));
        }
        let part = &self.container.parts[number];
        let stored = self.container.read_frame(self.job, part)?;
        let table = stored.table.as_ref();
        let bytes = self
            .container
            .decode_part(self.job, part, &stored.bytes, table)?;
        let bytes = Arc::new(bytes);
        *last = Some((number, Arc::clone(&bytes)));
        Ok(bytes)
    }
}

impl Source for RestoredRanges<'_> {
    fn name(&self) -> &str {
        self.container.name()
    }

    fn len_bytes(&self) -> u64 {
        self.container.original_len_bytes()
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        if range.start > range.end || range.end > self.len_bytes() {
            return Err(self.ends_before(range.end));
        }
        let mut out = buffer(range.end - range.start)?;
        self.read_into(range.start, &mut out)?;
        Ok(Cow::Owned(out))
    }

    fn read_into(&self, start: u64, mut out: &mut [u8]) -> Result<()> {
        let mut at = start;
        let first = self.spans.partition_point(|(span, _)| span.end <= start);
        for (span, number) in &self.spans[first..] {
            if out.is_empty() {
                break;
            }
            let bytes = self.decoded(*number)?;
            let from = index(at.saturating_sub(span.start));
            let len = out.len().min(bytes.len().saturating_sub(from));
            let (part, rest) = out.split_at_mut(len);
            part.copy_from_slice(&bytes[from..from + len]);
            out = rest;
            at += len as u64;
        }
        match out.is_empty() {
            true => Ok(()),
            false => Err(self.ends_before(at.saturating_add(out.len() as u64))),
        }
    }
}
