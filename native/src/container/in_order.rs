//! Decodes a container in the order of the original file.

use std::collections::HashSet;
use std::ops::Range;

use zstn_core::container::zstn::integrity::{FileCheck, Integrity};

use super::frame_runs::Part;
use super::{Container, Finished, StoredFrame, decoded_in_order};
use crate::buffers::Buffer;
use crate::ordered::in_order;
use crate::source::Source as _;
use crate::{Error, Job, Progress as _, Result, finished_tensor};

impl<'a> Container<'a> {
    /// Returns the name of the packed file in messages.
    pub(crate) fn name(&self) -> &str {
        self.input.name()
    }

    /// Returns the comparison of the original file with its SHA-256, if the container has
    /// one.
    pub(crate) fn file_check(&self) -> Option<FileCheck<'_>> {
        self.integrity().and_then(Integrity::file_check)
    }

    /// Decodes all frames on the threads of the engine, and passes the data of the
    /// original to `next` in order, on this thread. Every tensor is compared with its
    /// digest and statistics before it is passed on; the file as a whole is not.
    pub(crate) fn decode_sorted(
        &self,
        job: &Job,
        next: impl FnMut(Buffer<'a>) -> Result<()>,
    ) -> Result<()> {
        let statistics = self.statistics()?;
        let refuse = Error::place(self.name());
        let check = |span: &Range<u64>, bytes: &[u8]| statistics.check(&job.engine, span, bytes);
        job.begin(self.prefix.data_len_bytes);
        self.decode_in_order(job, |span, bytes| check(span, bytes).map_err(&refuse), next)
    }

    /// Decodes all frames, and passes the bytes of every span of the data buffer to
    /// `sink` from many threads, then to `next` in order, on this thread.
    pub(super) fn decode_in_order(
        &self,
        job: &Job,
        sink: impl Fn(&Range<u64>, &[u8]) -> Result<()> + Sync,
        mut next: impl FnMut(Buffer<'a>) -> Result<()>,
    ) -> Result<()> {
        let finished = Finished::new(self, job)?;
        let parts = self.parts.iter();
        let mut spans: Vec<(&Range<u64>, &Part)> = parts
            .flat_map(|part| part.spans().map(move |span| (span, part)))
            .collect();
        spans.sort_by_key(|(span, _)| (span.start, span.end));
        let mut read = HashSet::new();
        let frames = spans.iter().map(|(_, part)| *part);
        self.read_ahead(job, frames.filter(|part| read.insert(part.number)));
        // The threads of the engine read a local file. They must not wait for a server, so
        // this thread does.
        let begin = |(span, part)| {
            let arrived = match self.input.is_remote() {
                true => Some(self.read_frame(job, part)?),
                false => None,
            };
            Ok(Item {
                span,
                part,
                arrived,
            })
        };
        let decode = |item: &Item<'_, 'a>| {
            let (span, part) = (item.span, item.part);
            let read;
            let stored = match &item.arrived {
                Some(arrived) => arrived,
                None => {
                    read = self.read_frame(job, part)?;
                    &read
                }
            };
            let bytes = self.decode_part(job, part, &stored.bytes, stored.table.as_ref())?;
            sink(span, &bytes)?;
            let storage = match &finished {
                Some(_) => finished_tensor::frame(&stored.bytes),
                None => String::new(),
            };
            Ok((bytes, storage))
        };
        let take = |item: Item<'_, 'a>, (bytes, storage): (Buffer<'a>, String)| {
            let len_bytes = bytes.len() as u64;
            next(bytes)?;
            job.advance(len_bytes);
            if let Some(finished) = finished.as_ref().filter(|_| item.part.owns(item.span)) {
                finished.report(item.part, storage);
            }
            Ok(())
        };
        let lens_bytes = spans.iter().map(|(span, _)| span.end - span.start);
        let budget = decoded_in_order(job, lens_bytes);
        let items = spans.into_iter();
        let items = items.map(|(span, part)| ((span, part), span.end - span.start));
        in_order(job, items, budget, begin, decode, take)
    }
}

/// A span of the data buffer that a frame fills.
struct Item<'s, 'a> {
    span: &'s Range<u64>,
    part: &'s Part,
    /// The stored bytes, if they come from another machine.
    arrived: Option<StoredFrame<'a>>,
}
