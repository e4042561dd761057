//! A ZSTN container being decoded as a whole.

use std::ops::Range;

use zstn_core::bytes::part;
use zstn_core::catalog::{Recognised, recognise};
use zstn_core::container::zstn::integrity::{FileCheck, Integrity};
use zstn_core::container::zstn::rows::BlockTable;
use zstn_core::container::zstn::{self, Layout, Prefix, Tail};
use zstn_core::engine::Engine;
use zstn_core::frame::Stored;

use crate::source::{Map, Source};
use crate::{Error, Native, Progress, Result};

/// A container whose every frame has been checked as far as that is possible
/// without decoding. Only then is output made or memory taken.
pub(crate) struct Container<'a> {
    input: &'a Map,
    prefix: Prefix,
    integrity: Option<Integrity>,
    parts: Vec<Part<'a>>,
}

/// A frame and all the spans it fills.
struct Part<'a> {
    /// Of its record.
    number: usize,
    name: String,
    place: Range<u64>,
    spans: Vec<Range<u64>>,
    stored: Stored<'a>,
}

impl<'a> Container<'a> {
    pub(crate) fn parse(engine: &Native, input: &'a Map) -> Result<Self> {
        let refuse = Error::place(input.name());
        let head = &input[..input.len().min(16)];
        match recognise(head, input.len_bytes()).map_err(&refuse)? {
            Recognised::Zstn => {}
            Recognised::Delta => {
                return Err(Error::Usage(format!(
                    "{} is a difference from another checkpoint; name that one with --base",
                    input.name()
                )));
            }
            Recognised::ZTensor | Recognised::Gauss => {
                return Err(Error::Usage(format!(
                    "{} was not packed from a safetensors file; `zstn convert` makes one of it",
                    input.name()
                )));
            }
            Recognised::Safetensors => {
                return Err(Error::Usage(format!(
                    "{} is a safetensors file, not a packed one",
                    input.name()
                )));
            }
        }
        let prefix = Prefix::parse(input, input.len_bytes()).map_err(&refuse)?;
        let (integrity, parts) = match prefix.layout {
            Layout::Indexed => indexed(engine, input, &prefix),
            Layout::SingleFrame => single(input, &prefix).map(|parts| (None, parts)),
        }
        .map_err(&refuse)?;
        Ok(Self {
            input,
            prefix,
            integrity,
            parts,
        })
    }

    pub(crate) fn original_len_bytes(&self) -> u64 {
        self.prefix.original_len_bytes()
    }

    /// The header of the original file.
    pub(crate) fn header(&self) -> &'a [u8] {
        part(self.input, self.prefix.header.clone())
    }

    /// Whether decoding compares every byte with digests in the file.
    pub(crate) fn has_digests(&self) -> bool {
        self.integrity.as_ref().is_some_and(Integrity::is_complete)
    }

    /// Compares the whole restored file, given in pieces, with its SHA-256, if
    /// that is told.
    pub(crate) fn check_file<'b>(&self, pieces: impl IntoIterator<Item = &'b [u8]>) -> Result<()> {
        match &self.integrity {
            Some(integrity) => integrity
                .check_file(pieces)
                .map_err(Error::place(self.input.name())),
            None => Ok(()),
        }
    }

    /// Number of distinct frames.
    pub(crate) fn frame_count(&self) -> usize {
        self.parts.len()
    }

    /// Decodes every frame and hands its bytes to `sink` with each span of
    /// the data buffer they belong to, from many threads.
    pub(crate) fn decode(
        &self,
        engine: &Native,
        progress: &dyn Progress,
        sink: impl Fn(Range<u64>, &[u8]) -> Result<()> + Sync + Send,
    ) -> Result<()> {
        let refuse = Error::place(self.input.name());
        progress.begin(self.prefix.data_len_bytes);
        let jobs: Vec<&Part> = self.parts.iter().collect();
        let decode = |part: &Part| {
            let bytes = part.decode(engine, self).map_err(&refuse)?;
            for span in &part.spans {
                sink(span.clone(), &bytes)?;
                progress.advance(bytes.len() as u64);
            }
            Ok(())
        };
        engine.map(jobs, decode).into_iter().collect()
    }

    /// Decodes every frame and hands the data buffer to `sink` span by span,
    /// from its start to its end, on one thread while others decode what
    /// follows. Then the whole is compared with its SHA-256, if that is told.
    pub(crate) fn decode_in_order(
        &self,
        engine: &Native,
        progress: &dyn Progress,
        sink: impl Fn(Range<u64>, &[u8]) -> Result<()> + Sync,
    ) -> Result<()> {
        let refuse = Error::place(self.input.name());
        progress.begin(self.prefix.data_len_bytes);
        let parts = self.parts.iter();
        let mut spans: Vec<(&Range<u64>, &Part)> = parts
            .flat_map(|part| part.spans.iter().map(move |span| (span, part)))
            .collect();
        spans.sort_by_key(|(span, _)| (span.start, span.end));
        let mut check = self.integrity.as_ref().and_then(Integrity::file_check);
        if let Some(begun) = check.take() {
            let len = (self.header().len() as u64).to_le_bytes();
            check = Some(begun.with(&len).with(self.header()));
        }
        let mut ready: Vec<(Range<u64>, Vec<u8>)> = Vec::new();
        let mut rest = &spans[..];
        while !(rest.is_empty() && ready.is_empty()) {
            let mut wave_bytes = 0;
            let count = rest
                .iter()
                .take_while(|(span, _)| {
                    let is_first = wave_bytes == 0;
                    wave_bytes += span.end - span.start;
                    is_first || wave_bytes <= WAVE_BYTES
                })
                .count();
            let (wave, behind) = rest.split_at(count);
            rest = behind;
            let hand_on = || -> Result<()> {
                for (span, bytes) in &ready {
                    check = check.take().map(|check| check.with(bytes));
                    sink(span.clone(), bytes)?;
                    progress.advance(bytes.len() as u64);
                }
                Ok(())
            };
            let decode = || {
                let decoded = engine.map(wave.to_vec(), |(span, part)| {
                    Ok((span.clone(), part.decode(engine, self).map_err(&refuse)?))
                });
                decoded.into_iter().collect::<Result<Vec<_>>>()
            };
            let (handed_on, decoded) = engine.join(hand_on, decode);
            handed_on?;
            ready = decoded?;
        }
        check.map_or(Ok(()), FileCheck::finish).map_err(&refuse)
    }

    /// Compares the block tables, which only readers of rows use, with the
    /// frames.
    pub(crate) fn check_tables(&self, engine: &Native) -> Result<()> {
        let Some(integrity) = &self.integrity else {
            return Ok(());
        };
        let check = |frame: &Part| {
            let Some(table) = integrity.table(frame.number) else {
                return Ok(());
            };
            let len = frame.spans.first().map_or(0, |span| span.end - span.start);
            let stored = part(self.input, frame.place.clone());
            let bytes = part(self.input, table.clone());
            let checked = BlockTable::parse(bytes, stored.len() as u64, len)
                .map_err(|error| error.within(table.start))
                .and_then(|table| {
                    let checked = table.check(stored);
                    checked.map_err(|error| error.within(frame.place.start))
                });
            release(self.input, &frame.place);
            checked.map_err(|error| Error::place(self.input.name())(error.tensor(&frame.name)))
        };
        let frames: Vec<&Part> = self.parts.iter().collect();
        engine.map(frames, check).into_iter().collect()
    }
}

impl Part<'_> {
    /// Its bytes, compared with what `container` tells of them.
    fn decode(&self, engine: &Native, container: &Container) -> zstn_core::Result<Vec<u8>> {
        let decode = || {
            let len = self.spans.first().map_or(0, |span| span.end - span.start);
            let mut bytes = zstn_core::bytes::buffer(len)?;
            let integrity = container.integrity.as_ref();
            if let Some(integrity) = integrity {
                integrity.check_stored(self.number, part(container.input, self.place.clone()))?;
            }
            self.stored.decode(engine, &mut bytes)?;
            if let Some(integrity) = integrity {
                integrity.check_tensor(self.number, &bytes)?;
            }
            release(container.input, &self.place);
            Ok(bytes)
        };
        decode().map_err(|error: zstn_core::Error| error.tensor(&self.name))
    }
}

/// Decoded bytes that wait for what goes from the start of a file to its end.
const WAVE_BYTES: u64 = 32 << 20;

fn release(input: &Map, place: &Range<u64>) {
    let at = zstn_core::bytes::index;
    input.release(at(place.start)..at(place.end));
}

fn indexed<'a>(
    engine: &Native,
    input: &'a Map,
    prefix: &Prefix,
) -> zstn_core::Result<(Option<Integrity>, Vec<Part<'a>>)> {
    let Tail { index, integrity } = Tail::of_file(prefix, input)?;
    let records = index.records();
    let mut spans: Vec<Vec<Range<u64>>> = vec![Vec::new(); records.len()];
    for (number, record) in records.iter().enumerate() {
        spans[index.frame(number).0].push(record.span.clone());
    }
    let owners: Vec<_> = spans
        .into_iter()
        .enumerate()
        .filter(|(_, spans)| !spans.is_empty())
        .collect();
    let parts: zstn_core::Result<Vec<Part>> = engine
        .map(owners, |(number, spans)| {
            let (record, place) = (&records[number], index.frame(number).1);
            let len = record.span.end - record.span.start;
            let bytes = part(input, place.clone());
            let damaged = |integrity: &Integrity| integrity.check_stored(number, bytes).err();
            let stored = Stored::parse(bytes, len)
                // That the bytes are damaged says more than what is wrong with them.
                .map_err(|error| integrity.as_ref().and_then(damaged).unwrap_or(error))
                .map_err(|error| error.within(place.start).tensor(&record.name))?;
            // Checking has looked into every part of the frame.
            release(input, &place);
            Ok(Part {
                number,
                name: record.name.clone(),
                place,
                spans,
                stored,
            })
        })
        .into_iter()
        .collect();
    Ok((integrity, parts?))
}

fn single<'a>(input: &'a Map, prefix: &Prefix) -> zstn_core::Result<Vec<Part<'a>>> {
    let behind = part(input, prefix.end()..input.len_bytes());
    let place = zstn::single_frame_range(behind, prefix)?;
    let stored = Stored::parse(part(input, place.clone()), prefix.data_len_bytes)
        .map_err(|error| error.within(place.start))?;
    let whole = 0..prefix.data_len_bytes;
    Ok(vec![Part {
        number: 0,
        name: "(all data)".into(),
        place,
        spans: vec![whole],
        stored,
    }])
}
