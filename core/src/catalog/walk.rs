//! Walks the records of a delta without a trailer. Of a large file, only a
//! window at the head of each record is fetched; a small file is fetched whole.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::fetched::FetchedRanges;
use crate::bytes::Cursor;
use crate::container::model_delta::{Head, Prefix, Record, max_head_bytes};
use crate::container::safetensors::Header;
use crate::frame::Edition;
use crate::{Error, Result, Rule};

/// The least number of bytes requested at a time. A window of this size often
/// contains the records of several small tensors.
const WINDOW_BYTES: u64 = 4096;

/// A walk in progress. Every record consumes one of the header's tensors, which
/// bounds the number of steps.
#[derive(Debug, Clone)]
pub(super) struct Walk {
    header: Header,
    /// The numbers of the header's tensors, by name.
    numbers: BTreeMap<String, usize>,
    /// The length of the longest possible record head.
    head_len_bytes: u64,
    wants_rest: bool,
    edition: Edition,
    position: u64,
    found: usize,
    records: Vec<Option<Record>>,
}

impl Walk {
    /// Starts a walk through the records after `prefix`. With `wants_rest`, the
    /// rest of the file is fetched at once; otherwise, window by window.
    pub(super) fn new(prefix: &Prefix, header: Header, wants_rest: bool) -> Result<Self> {
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

    pub(super) fn wants_rest(&self) -> bool {
        self.wants_rest
    }

    /// Returns the offset at which the next record begins.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    fn is_done(&self) -> bool {
        self.found == self.records.len()
    }

    pub(super) fn needs(&self, fetched: &FetchedRanges) -> Option<Range<u64>> {
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
    pub(super) fn advance(&mut self, fetched: &FetchedRanges) -> Result<()> {
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
        let head = Head::read(&mut cursor, self.found as u64, self.edition)
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
        self.records[number] = Some(Record {
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
    pub(super) fn finish(self) -> Result<(Header, Vec<Record>, u64)> {
        if !self.is_done() {
            return Err(Error::invalid_input(
                "not all requested ranges were supplied",
            ));
        }
        let records = self.records.into_iter().flatten().collect();
        Ok((self.header, records, self.position))
    }
}
