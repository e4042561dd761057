//! A ZSTN container being decoded as a whole.

use std::ops::Range;

use zstn_core::catalog::{Kind, recognise};
use zstn_core::container::zstn::integrity::{FileCheck, Integrity, StatisticsCheck};
use zstn_core::container::zstn::{CheckedFrame, Layout, Prefix, Tail};
use zstn_core::engine::Engine as _;
use zstn_core::limits::HEAD_LEN_BYTES;

use crate::source::{Map, Source};
use crate::{Engine, Error, Progress, Result};
use finished::Finished;
use part::{Part, hull, parts, runs, single};

mod finished;
mod part;
mod wave;

pub(crate) use wave::{decode_in_order, decode_in_waves};

/// A container whose every frame has been checked as far as that is possible
/// without decoding. Only then is output made or memory taken.
pub(crate) struct Container<'a> {
    input: &'a Map,
    prefix: Prefix,
    /// None where there is a single frame.
    tail: Option<Tail>,
    parts: Vec<Part>,
}

impl<'a> Container<'a> {
    pub(crate) fn parse(engine: &Engine, input: &'a Map) -> Result<Self> {
        let refuse = Error::place(input.name());
        let head = input.read(0..input.len_bytes().min(HEAD_LEN_BYTES))?;
        match recognise(&head, input.len_bytes()).map_err(&refuse)? {
            Kind::Zstn => {}
            Kind::Delta => return Err(Error::needs_base(input.name())),
            Kind::Safetensors => {
                return Err(Error::Usage(format!(
                    "{} is a safetensors file, not a packed one",
                    input.name()
                )));
            }
            _ => {
                return Err(Error::Usage(format!(
                    "{} was not packed from a safetensors file; `convert` makes one of it",
                    input.name()
                )));
            }
        }
        let prefix = Prefix::parse(input, input.len_bytes()).map_err(&refuse)?;
        let (tail, parts) = match prefix.layout {
            Layout::Indexed => Tail::of_file(&prefix, input).map(|tail| {
                let parts = parts(&tail.index);
                (Some(tail), parts)
            }),
            Layout::SingleFrame => single(input, &prefix).map(|part| (None, vec![part])),
        }
        .map_err(&refuse)?;
        // Header and index have been read.
        input.release(0..input.len());
        let container = Self {
            input,
            prefix,
            tail,
            parts,
        };
        let check = |run: &[Part]| {
            let checked = run.iter().try_for_each(|part| container.check(part));
            // Checking has looked into every part of the frames.
            release(input, &hull(run));
            checked
        };
        let checked = engine.map(runs(&container.parts), check).into_iter();
        checked
            .collect::<zstn_core::Result<()>>()
            .map_err(&refuse)?;
        Ok(container)
    }

    fn integrity(&self) -> Option<&Integrity> {
        self.tail.as_ref()?.integrity.as_ref()
    }

    /// Adds the name of the tensor of a frame to an error.
    fn named(&self, part: &Part, error: zstn_core::Error) -> zstn_core::Error {
        match &self.tail {
            Some(tail) => error.tensor(&tail.index.records()[part.number].name),
            None => error,
        }
    }

    fn frame(&self, part: &Part) -> zstn_core::Result<CheckedFrame<'_>> {
        let bytes = bytes_at(self.input, &part.place);
        let expected = self.integrity().map(|integrity| (integrity, part.number));
        CheckedFrame::parse(bytes, part.len_bytes(), self.prefix.edition, expected)
    }

    fn check(&self, part: &Part) -> zstn_core::Result<()> {
        let checked = self.frame(part).map(drop);
        checked.map_err(|error| self.named(part, error.within(part.place.start)))
    }

    /// Decodes a frame, and compares its bytes with the digests in the file, and its
    /// block table, which only readers of rows use, with the frame.
    fn decode_part(&self, engine: &Engine, part: &Part) -> zstn_core::Result<Vec<u8>> {
        let decode = || -> zstn_core::Result<Vec<u8>> {
            let mut bytes = zstn_core::bytes::buffer(part.len_bytes())?;
            self.frame(part)?.decode(engine, &mut bytes)?;
            Ok(bytes)
        };
        let bytes = decode().map_err(|error| self.named(part, error.within(part.place.start)))?;
        if let Some(integrity) = self.integrity() {
            let stored = (part.place.start, bytes_at(self.input, &part.place));
            let (len_bytes, edition) = (part.len_bytes(), self.prefix.edition);
            let read = |table| Ok(bytes_at(self.input, &table).into());
            let checked = integrity.check_table(part.number, stored, len_bytes, edition, read);
            checked.map_err(|error| self.named(part, error))?;
        }
        Ok(bytes)
    }

    /// Returns the stored statistics, to compare decoded tensors with.
    fn statistics(&self) -> Result<StatisticsCheck> {
        let Some(tail) = &self.tail else {
            return Ok(StatisticsCheck::default());
        };
        let read = |range| Ok(bytes_at(self.input, &range).into());
        let check = StatisticsCheck::new(self.header(), &self.prefix, tail, read);
        check.map_err(Error::place(self.input.name()))
    }

    pub(crate) fn original_len_bytes(&self) -> u64 {
        self.prefix.original_len_bytes()
    }

    /// Returns the header of the original file.
    pub(crate) fn header(&self) -> &'a [u8] {
        bytes_at(self.input, &self.prefix.header)
    }

    /// Releases the memory of the header until it is needed again.
    pub(crate) fn release_header(&self) {
        release(self.input, &self.prefix.header);
    }

    /// Returns whether decoding compares every byte with digests in the file.
    pub(crate) fn has_digests(&self) -> bool {
        self.integrity().is_some_and(Integrity::is_complete)
    }

    /// Returns the number of distinct frames.
    pub(crate) fn frame_count(&self) -> usize {
        self.parts.len()
    }

    /// Decodes every frame and hands its bytes to `sink` with each span of
    /// the data buffer they belong to, from many threads. Everything that the file
    /// holds to compare with is compared: statistics and block tables, which only
    /// some readers use, and the SHA-256 of the whole. Tensors decoded at the same
    /// time take about `memory_bytes` at most.
    pub(crate) fn decode(
        &self,
        engine: &Engine,
        memory_bytes: u64,
        progress: &dyn Progress,
        sink: impl Fn(Range<u64>, &[u8]) -> Result<()> + Sync + Send,
    ) -> Result<()> {
        let statistics = self.statistics()?;
        let refuse = Error::place(self.input.name());
        let sink = |span: &Range<u64>, bytes: &[u8]| {
            statistics.check(engine, span, bytes).map_err(&refuse)?;
            sink(span.clone(), bytes)
        };
        progress.begin(self.prefix.data_len_bytes);
        match self.integrity().and_then(Integrity::file_check) {
            Some(check) => self.decode_in_order(engine, memory_bytes, progress, check, sink),
            None => self.decode_in_runs(engine, memory_bytes, progress, sink),
        }
    }

    fn decode_in_runs(
        &self,
        engine: &Engine,
        memory_bytes: u64,
        progress: &dyn Progress,
        sink: impl Fn(&Range<u64>, &[u8]) -> Result<()> + Sync + Send,
    ) -> Result<()> {
        let refuse = Error::place(self.input.name());
        let finished = Finished::new(self, progress);
        let decode = |run: &[Part]| {
            for part in run {
                let bytes = self.decode_part(engine, part).map_err(&refuse)?;
                for span in part.spans() {
                    sink(span, &bytes)?;
                    progress.advance(bytes.len() as u64);
                }
                if let Some(finished) = &finished {
                    finished.tell(part);
                }
            }
            release(self.input, &hull(run));
            Ok(())
        };
        let runs = runs(&self.parts);
        let cost = |run: &&[Part]| run.iter().map(Part::len_bytes).sum();
        decode_in_waves(engine, &runs, cost, memory_bytes, decode)
    }

    /// Decodes like [`Container::decode`], and hashes the data buffer from its start
    /// to its end on one thread while others decode the bytes that follow.
    fn decode_in_order(
        &self,
        engine: &Engine,
        memory_bytes: u64,
        progress: &dyn Progress,
        check: FileCheck,
        sink: impl Fn(&Range<u64>, &[u8]) -> Result<()> + Sync + Send,
    ) -> Result<()> {
        let refuse = Error::place(self.input.name());
        let finished = Finished::new(self, progress);
        let parts = self.parts.iter();
        let mut spans: Vec<(&Range<u64>, &Part)> = parts
            .flat_map(|part| part.spans().map(move |span| (span, part)))
            .collect();
        spans.sort_by_key(|(span, _)| (span.start, span.end));
        let len = (self.header().len() as u64).to_le_bytes();
        let mut check = Some(check.with(&len).with(self.header()));
        let decode = |(span, part): (&Range<u64>, &Part)| {
            let bytes = self.decode_part(engine, part).map_err(&refuse)?;
            sink(span, &bytes)?;
            release(self.input, &part.place);
            Ok(bytes)
        };
        let hash = |(span, part): (&Range<u64>, &Part), bytes: Vec<u8>| {
            check = check.take().map(|check| check.with(&bytes));
            progress.advance(bytes.len() as u64);
            if let Some(finished) = finished.as_ref().filter(|_| part.owns(span)) {
                finished.tell(part);
            }
        };
        let cost = |(span, _): &(&Range<u64>, &Part)| span.end - span.start;
        decode_in_order(engine, &spans, cost, memory_bytes, decode, hash)?;
        check.map_or(Ok(()), FileCheck::finish).map_err(&refuse)
    }
}

fn release(input: &Map, place: &Range<u64>) {
    let at = zstn_core::bytes::index;
    input.release(at(place.start)..at(place.end));
}

fn bytes_at<'a>(input: &'a Map, place: &Range<u64>) -> &'a [u8] {
    zstn_core::bytes::part(input, place.clone())
}
