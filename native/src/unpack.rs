//! A ZSTN container back to the file it was packed from, byte for byte.

use std::ops::Range;
use std::path::Path;

use zstn_core::bytes::part;
use zstn_core::catalog::{Recognised, recognise};
use zstn_core::container::zstn::integrity::Integrity;
use zstn_core::container::zstn::rows::BlockTable;
use zstn_core::container::zstn::{self, Layout, Prefix, Tail};
use zstn_core::engine::Engine;
use zstn_core::frame::Stored;

use crate::source::{Map, Place, Source};
use crate::{Error, Native, Output, Progress, Result};

/// What unpacking came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnpackReport {
    /// Length of the container.
    pub packed_bytes: u64,
    /// Length of the restored file.
    pub original_bytes: u64,
}

/// Restores the file that `input`, a path or an http(s) address, was packed
/// from, as `output`.
pub fn unpack(
    engine: &Native,
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    progress: &dyn Progress,
) -> Result<UnpackReport> {
    let map = Place::from(&*input.as_ref().to_string_lossy()).whole(&|_, _| ())?;
    unpack_map(engine, &map, output.as_ref(), progress)
}

/// Restores from a mapped file. With an integrity section every frame, every
/// tensor and the restored file are compared with it before the output gets
/// its name.
pub fn unpack_map(
    engine: &Native,
    input: &Map,
    output: &Path,
    progress: &dyn Progress,
) -> Result<UnpackReport> {
    let container = Container::parse(engine, input)?;
    let output = Output::create(output)?;
    let data_start = begin(&output, container.header(), container.original_len_bytes())?;
    container.decode(engine, progress, |span, bytes| {
        output.write_at(bytes, data_start + span.start)
    })?;
    if let Some(integrity) = &container.integrity {
        let written = output.map()?;
        integrity
            .check_file(written.pieces(0..written.len()))
            .map_err(Error::place(input.name()))?;
    }
    output.finish()?;
    Ok(UnpackReport {
        packed_bytes: input.len_bytes(),
        original_bytes: container.original_len_bytes(),
    })
}

/// Begins a safetensors file of `len_bytes` with its header; returns where its
/// data start.
pub(crate) fn begin(output: &Output, header: &[u8], len_bytes: u64) -> Result<u64> {
    output.set_len(len_bytes)?;
    output.write_at(&(header.len() as u64).to_le_bytes(), 0)?;
    output.write_at(header, 8)?;
    Ok(8 + header.len() as u64)
}

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
            let len = part.spans.first().map_or(0, |span| span.end - span.start);
            let mut bytes = zstn_core::bytes::buffer(len)?;
            let named = |error: zstn_core::Error| refuse(error.tensor(&part.name));
            if let Some(integrity) = &self.integrity {
                let stored = zstn_core::bytes::part(self.input, part.place.clone());
                integrity.check_stored(part.number, stored).map_err(named)?;
            }
            part.stored.decode(engine, &mut bytes).map_err(named)?;
            if let Some(integrity) = &self.integrity {
                integrity.check_tensor(part.number, &bytes).map_err(named)?;
            }
            for span in &part.spans {
                sink(span.clone(), &bytes)?;
                progress.advance(len);
            }
            release(self.input, &part.place);
            Ok(())
        };
        engine.map(jobs, decode).into_iter().collect()
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
