//! Opens a delta. For a delta with a trailer, the head, the header and the
//! trailer are enough. Without a trailer the records are walked, since z4ai's
//! format has no index (docs/formats/zstn-delta.md 4): of a large file, only a
//! window at the head of each record is fetched; a small file is fetched whole.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use crate::bytes::Cursor;
use crate::catalog::FileCatalog;
use crate::catalog::file_opener::FetchedRanges;
use crate::catalog::format::Opener;
use crate::container::model_delta::{
    DeltaPrefix, DeltaRecord, RecordHead, TRAILER_END_BYTES, Trailer, TrailerContents,
    fields_len_bytes, lost_trailer, max_head_bytes, not_a_trailer, usual_bytes,
};
use crate::container::safetensors::Header;
use crate::engine::Engine;
use crate::frame::Edition;
use crate::limits::{DELTA_WHOLE_BYTES, HEADER_LEN_BYTES};
use crate::{Error, Result, Rule};

/// The sections of a delta that have been parsed.
#[derive(Debug, Clone, Default)]
pub struct FormatOpener {
    trailer: Option<Trailer>,
    fields_len_bytes: u64,
    walk: Option<Walk>,
}

/// The location of the trailer's fields, known once the end of the file has
/// been fetched.
enum TrailerFields {
    Unknown,
    Absent,
    At(Range<u64>),
}

impl Opener for FormatOpener {
    fn needs(&self, fetched: &FetchedRanges) -> Result<Vec<Range<u64>>> {
        if let Some(walk) = &self.walk {
            return Ok(walk.needs(fetched).into_iter().collect());
        }
        if self.trailer.is_some() {
            return Ok(Vec::new());
        }
        let prefix_len = prefix_len_bytes(fetched)?;
        let mut missing: Vec<_> = fetched.missing_head(prefix_len).into_iter().collect();
        let covered = prefix_len.max(fetched.head().len() as u64);
        let len_bytes = fetched.len_bytes();
        match trailer_fields(fetched, prefix_len)? {
            TrailerFields::Unknown => {
                let edition = DeltaPrefix::edition(fetched.head())?;
                let guess = len_bytes.saturating_sub(usual_bytes(prefix_len, edition));
                missing.push(guess.max(covered)..len_bytes);
            }
            TrailerFields::At(fields) if missing.is_empty() => {
                missing.push(fields.start.max(covered)..fetched.tail_start());
            }
            _ => {}
        }
        Ok(missing)
    }

    fn supply(&self, fetched: &mut FetchedRanges, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        let is_window = |walk: &Walk| !walk.wants_rest() && walk.position() == offset_bytes;
        if self.walk.as_ref().is_some_and(is_window) {
            fetched.supply_window(offset_bytes, bytes);
            return Ok(());
        }
        fetched.supply(offset_bytes, bytes)
    }

    fn advance(&mut self, fetched: &FetchedRanges) -> Result<()> {
        if let Some(walk) = &mut self.walk {
            return walk.advance(fetched);
        }
        let prefix_len = prefix_len_bytes(fetched)?;
        if self.trailer.is_some() || fetched.missing_head(prefix_len).is_some() {
            return Ok(());
        }
        let prefix = DeltaPrefix::parse(fetched.head(), fetched.len_bytes())?;
        match trailer_fields(fetched, prefix_len)? {
            TrailerFields::Unknown => return Ok(()),
            TrailerFields::Absent if prefix.edition == Edition::Paired => {
                return Err(lost_trailer());
            }
            TrailerFields::Absent => {}
            TrailerFields::At(fields) => match fetched.part(fields.clone()) {
                None => return Ok(()),
                Some(bytes) => {
                    let trailer = Trailer::from_fields(&bytes, prefix.edition);
                    let trailer = trailer.map_err(|error| error.within(fields.start))?;
                    self.trailer = Some(trailer);
                    self.fields_len_bytes = fields.end - fields.start;
                }
            },
        }
        if self.contents().is_none() {
            let header = self.header(fetched, &prefix)?;
            let wants_rest = fetched.len_bytes() <= DELTA_WHOLE_BYTES;
            let mut walk = Walk::new(&prefix, header, wants_rest)?;
            walk.advance(fetched)?;
            self.walk = Some(walk);
        }
        Ok(())
    }

    fn finish<E: Engine>(self, fetched: &FetchedRanges, _: &E) -> Result<FileCatalog> {
        let prefix = DeltaPrefix::parse(fetched.head(), fetched.len_bytes())?;
        let (header, records) = match (&self.walk, self.contents()) {
            (None, Some(contents)) => {
                contents.check_header(&fetched.have(prefix.header.clone()))?;
                let header = self.header(fetched, &prefix)?;
                let end = fetched.len_bytes() - TRAILER_END_BYTES - self.fields_len_bytes;
                let records = records(&prefix, &header, contents, end)?;
                let infos = contents.records.iter().copied().map(Some);
                (header, records.into_iter().zip(infos).collect())
            }
            (Some(walk), _) => {
                let (header, records, end) = walk.clone().finish()?;
                self.check_end(fetched.len_bytes() - end)
                    .map_err(|error| error.at(end))?;
                (header, records.into_iter().map(|r| (r, None)).collect())
            }
            (None, None) => {
                return Err(Error::invalid_input(
                    "not all requested ranges were supplied",
                ));
            }
        };
        let trailer = self.trailer.as_ref();
        let len_bytes = fetched.len_bytes();
        let header_json = fetched.have(prefix.header.clone()).into_owned();
        FileCatalog::delta(&prefix, header_json, header, records, trailer, len_bytes)
    }
}

impl FormatOpener {
    /// Checks that the `after_records` bytes between the last record and the
    /// end of the file are the trailer.
    fn check_end(&self, after_records: u64) -> Result<()> {
        let expected = match &self.trailer {
            Some(_) => self.fields_len_bytes + TRAILER_END_BYTES,
            None => 0,
        };
        match after_records == expected {
            true => Ok(()),
            false => Err(not_a_trailer(after_records)),
        }
    }

    fn contents(&self) -> Option<&TrailerContents> {
        self.trailer.as_ref()?.contents.as_ref()
    }

    fn header(&self, fetched: &FetchedRanges, prefix: &DeltaPrefix) -> Result<Header> {
        Header::parse(&fetched.have(prefix.header.clone()), prefix.data_len_bytes)
    }
}

fn prefix_len_bytes(fetched: &FetchedRanges) -> Result<u64> {
    let len = DeltaPrefix::len_bytes(fetched.head(), fetched.len_bytes())?;
    if len > HEADER_LEN_BYTES {
        return Err(Error::malformed(
            Rule::SafetensorsHeaderCap,
            format!("a header of about {len} bytes is over the cap of {HEADER_LEN_BYTES}"),
        )
        .at(5));
    }
    Ok(len)
}

fn trailer_fields(fetched: &FetchedRanges, prefix_len: u64) -> Result<TrailerFields> {
    let len_bytes = fetched.len_bytes();
    // The file is too short for a trailer.
    let Some(trailer_start) = len_bytes
        .checked_sub(TRAILER_END_BYTES)
        .filter(|&start| start >= prefix_len)
    else {
        return Ok(TrailerFields::Absent);
    };
    let Some(trailer) = fetched.part(trailer_start..len_bytes) else {
        return Ok(TrailerFields::Unknown);
    };
    let fields = fields_len_bytes(&trailer, prefix_len, trailer_start - prefix_len)?;
    Ok(fields.map_or(TrailerFields::Absent, |len| {
        TrailerFields::At(trailer_start - len..trailer_start)
    }))
}

/// Computes the location of every record from the lengths in the trailer. The
/// records are stored in data order and without gaps.
fn records(
    prefix: &DeltaPrefix,
    header: &Header,
    contents: &TrailerContents,
    end: u64,
) -> Result<Vec<DeltaRecord>> {
    let count = header.tensors.len();
    if contents.records.len() != count || u64::from(prefix.record_count) != count as u64 {
        return Err(Error::malformed(
            Rule::DeltaPlaces,
            format!(
                "the header lists {count} tensors, the trailer {}, the file has {} records",
                contents.records.len(),
                prefix.record_count
            ),
        ));
    }
    let mut position = prefix.end();
    let mut records = Vec::new();
    for (tensor, info) in header.tensors.iter().zip(&contents.records) {
        let start = info.kind.head_bytes(tensor.name.len() as u64) + position;
        position = start
            .checked_add(info.payload_len_bytes)
            .filter(|&position| position <= end)
            .ok_or_else(|| {
                Error::malformed(
                    Rule::DeltaPlaces,
                    "the trailer places this record beyond the end of the file",
                )
                .tensor(&tensor.name)
            })?;
        info.check_source(&tensor.name, tensor.span.end - tensor.span.start)?;
        records.push(DeltaRecord {
            name: tensor.name.clone(),
            span: tensor.span.clone(),
            kind: info.kind,
            payload: start..position,
        });
    }
    match end - position {
        0 => Ok(records),
        rest => Err(not_a_trailer(rest).at(position)),
    }
}

/// The least number of bytes requested at a time. A window of this size often
/// contains the records of several small tensors.
const WINDOW_BYTES: u64 = 4096;

/// A walk in progress over the records of a delta without a trailer. Every
/// record must name a tensor of the header that no earlier record names, which
/// bounds the number of steps.
#[derive(Debug, Clone)]
struct Walk {
    header: Header,
    /// The numbers of the header's tensors, by name.
    numbers: BTreeMap<String, usize>,
    /// The length of the longest possible record head.
    head_len_bytes: u64,
    wants_rest: bool,
    edition: Edition,
    position: u64,
    found: usize,
    records: Vec<Option<DeltaRecord>>,
}

impl Walk {
    /// Starts a walk through the records after `prefix`. With `wants_rest`, the
    /// rest of the file is fetched at once; otherwise it is fetched window by
    /// window.
    fn new(prefix: &DeltaPrefix, header: Header, wants_rest: bool) -> Result<Self> {
        let count = header.tensors.len();
        if u64::from(prefix.record_count) != count as u64 {
            return Err(Error::malformed(
                Rule::DeltaPlaces,
                format!(
                    "the header lists {count} tensors, the file has {} records",
                    prefix.record_count
                ),
            ));
        }
        let names = header.tensors.iter().map(|tensor| tensor.name.as_str());
        let longest = names.clone().map(str::len).max().unwrap_or(0);
        Ok(Self {
            numbers: names.map(String::from).zip(0..).collect(),
            head_len_bytes: max_head_bytes(longest as u64),
            wants_rest,
            edition: prefix.edition,
            position: prefix.end(),
            found: 0,
            records: vec![None; count],
            header,
        })
    }

    fn wants_rest(&self) -> bool {
        self.wants_rest
    }

    /// Returns the offset at which the next record begins.
    fn position(&self) -> u64 {
        self.position
    }

    fn is_done(&self) -> bool {
        self.found == self.records.len()
    }

    fn needs(&self, fetched: &FetchedRanges) -> Option<Range<u64>> {
        if self.is_done() {
            return None;
        }
        if self.wants_rest {
            return Some(fetched.head().len() as u64..fetched.tail_start());
        }
        let window = WINDOW_BYTES.max(self.head_len_bytes);
        Some(self.position..fetched.len_bytes().min(self.position + window))
    }

    /// Parses all records whose heads have been fetched.
    fn advance(&mut self, fetched: &FetchedRanges) -> Result<()> {
        while !self.is_done() {
            let end = fetched.len_bytes().min(self.position + self.head_len_bytes);
            let Some(bytes) = fetched.part(self.position..end) else {
                return Ok(());
            };
            self.step(&bytes, fetched.len_bytes())
                .map_err(|error| error.at(self.position))?;
        }
        Ok(())
    }

    fn step(&mut self, bytes: &[u8], file_len_bytes: u64) -> Result<()> {
        let mut cursor = Cursor::new(bytes);
        let head = RecordHead::read(&mut cursor, self.found as u64, self.edition)
            .map_err(|error| error.within(self.position))?;
        let start = self.position + cursor.position() as u64;
        let end = start
            .checked_add(head.payload_len_bytes)
            .filter(|&end| end <= file_len_bytes)
            .ok_or_else(|| {
                Error::malformed(
                    Rule::DeltaRecord,
                    "the payload reaches past the end of the file; it looks cut off",
                )
                .tensor(&head.name)
            })?;
        let number = self.numbers.get(&head.name).copied();
        let free = number.filter(|&number| {
            self.records[number].is_none() && self.header.tensors[number].span == head.span
        });
        let Some(number) = free else {
            return Err(Error::malformed(
                Rule::DeltaPlaces,
                "the header does not list this record's tensor, lists it at another offset, or \
                 two records have it",
            )
            .tensor(&head.name));
        };
        self.records[number] = Some(DeltaRecord {
            name: head.name,
            span: head.span,
            kind: head.kind,
            payload: start..end,
        });
        self.found += 1;
        self.position = end;
        Ok(())
    }

    /// Returns the header, the records in the order of its tensors, and the
    /// offset at which the last record ends.
    fn finish(self) -> Result<(Header, Vec<DeltaRecord>, u64)> {
        if !self.is_done() {
            return Err(Error::invalid_input(
                "not all requested ranges were supplied",
            ));
        }
        let records = self.records.into_iter().flatten().collect();
        Ok((self.header, records, self.position))
    }
}
