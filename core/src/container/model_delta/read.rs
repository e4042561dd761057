//! Reads the records and the trailer of a delta, and decodes its tensors.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ops::Range;

use super::payload::{Reference, check_payload, decode_payload};
use super::record::{self, DeltaRecord, RecordKind};
use super::source::{References, check_uses};
use super::trailer::{Trailer, TrailerContents, is_announced, lost_trailer};
use super::{BaseHeader, DeltaPrefix};
use crate::bytes::part;
use crate::container::safetensors::Header;
use crate::engine::Engine;
use crate::frame::Edition;
use crate::{Error, Result, Rule, sort};

/// The content of a delta file except for the payloads of its records. The
/// records cover the target's data.
#[derive(Debug)]
pub struct DeltaTable {
    /// The bytes of the prefix.
    head: Vec<u8>,
    prefix: DeltaPrefix,
    records: Vec<DeltaRecord>,
    trailer: Option<Trailer>,
}

/// The number of bytes that are fetched first, enough for
/// [`DeltaPrefix::len_bytes`].
pub(super) const START_BYTES: u64 = 64;

/// The number of bytes at the start of a payload that contain its flags.
const FLAGS_BYTES: u64 = 16;

impl DeltaTable {
    /// Reads the prefix, the records and the trailer of a file of `len_bytes`,
    /// and checks that they agree. `fetch` returns the bytes of a range.
    ///
    /// # Errors
    /// The errors of `fetch`, and the rule that the file breaks.
    pub fn read<'f, E: From<Error>>(
        len_bytes: u64,
        fetch: &mut dyn FnMut(Range<u64>) -> Result<Cow<'f, [u8]>, E>,
    ) -> Result<Self, E> {
        let start = fetch(0..len_bytes.min(START_BYTES))?;
        let prefix_len = DeltaPrefix::len_bytes(&start, len_bytes)?;
        let head = fetch(0..prefix_len)?.into_owned();
        let prefix = DeltaPrefix::parse(&head, len_bytes)?;
        let (records, end) = record::read(&prefix, len_bytes, fetch)?;
        let header_len = prefix.header.end - prefix.header.start;
        let trailer = Trailer::parse(&fetch(end..len_bytes)?, header_len, prefix.edition);
        let trailer = trailer.map_err(|error| error.within(end))?;
        let delta = Self {
            head,
            prefix,
            records,
            trailer,
        };
        if let Some(contents) = delta.contents() {
            delta.check_contents(contents)?;
        }
        if delta.trailer.is_none() {
            if delta.prefix.edition == Edition::Paired {
                return Err(lost_trailer().at(end).into());
            }
            for record in &delta.records {
                let Range {
                    start,
                    end: payload_end,
                } = record.payload;
                let flags = fetch(start..payload_end.min(start + FLAGS_BYTES))?;
                if is_announced(record.kind, &flags) {
                    return Err(lost_trailer().at(end).into());
                }
            }
        }
        Ok(delta)
    }

    fn contents(&self) -> Option<&TrailerContents> {
        self.trailer.as_ref()?.contents.as_ref()
    }

    fn check_contents(&self, contents: &TrailerContents) -> Result<()> {
        contents.check_header(self.header())?;
        let tensors = Header::parse(self.header(), self.prefix.data_len_bytes)?.tensors;
        let same_count = tensors.len() == self.records.len();
        if !same_count || contents.records.len() != self.records.len() {
            return Err(Error::malformed(
                Rule::DeltaPlaces,
                "the header, the records and the trailer list different numbers of tensors",
            ));
        }
        for ((record, info), tensor) in self.records.iter().zip(&contents.records).zip(&tensors) {
            let payload_len = record.payload.end - record.payload.start;
            if (record.kind, payload_len) != (info.kind, info.payload_len_bytes)
                || (&record.name, &record.span) != (&tensor.name, &tensor.span)
            {
                return Err(Error::malformed(
                    Rule::DeltaPlaces,
                    "header, record and trailer disagree about this tensor",
                )
                .tensor(&record.name));
            }
            info.check_source(&record.name, record.len_bytes())?;
        }
        Ok(())
    }

    /// Returns the fields before the records.
    #[must_use]
    pub fn prefix(&self) -> &DeltaPrefix {
        &self.prefix
    }

    /// Returns the records in file order.
    #[must_use]
    pub fn records(&self) -> &[DeltaRecord] {
        &self.records
    }

    /// Returns the header of the target.
    #[must_use]
    pub fn header(&self) -> &[u8] {
        part(&self.head, self.prefix.header.clone())
    }

    /// Returns the length of the target's data buffer in bytes.
    #[must_use]
    pub fn data_len_bytes(&self) -> u64 {
        self.prefix.data_len_bytes
    }

    /// Returns whether the restored file is the data buffer alone, and not a safetensors
    /// file (docs/formats/zstn-delta.md 6).
    #[must_use]
    pub fn has_virtual_header(&self) -> bool {
        self.references().is_some()
    }

    fn references(&self) -> Option<&References> {
        self.trailer.as_ref()?.references.as_ref()
    }

    /// Returns the bytes of the restored file before the data buffer.
    #[must_use]
    pub fn original_head(&self) -> Vec<u8> {
        let header = self.header();
        match self.has_virtual_header() {
            true => Vec::new(),
            false => [&(header.len() as u64).to_le_bytes(), header].concat(),
        }
    }

    /// Returns the header of the base's file of `base_len_bytes`, made from the references
    /// in the trailer. Returns `None` if the base is a safetensors file, which has a header
    /// of its own.
    ///
    /// # Errors
    /// [`Rule::DeltaReference`] if the base has another length, and
    /// [`Rule::DeltaBaseTensor`] for a reference outside the base.
    pub fn referenced_base(&self, base_len_bytes: u64) -> Result<Option<BaseHeader>> {
        let Some(references) = self.references() else {
            return Ok(None);
        };
        let ranges = references.ranges(self.records.iter(), base_len_bytes)?;
        let named = ranges.into_iter().map(|(number, range)| {
            let name = self.records[number].name.clone();
            (name, range)
        });
        Ok(Some(BaseHeader::of_ranges(named, base_len_bytes)))
    }

    /// Returns the length of the restored file in bytes.
    #[must_use]
    pub fn original_len_bytes(&self) -> u64 {
        match self.has_virtual_header() {
            true => self.prefix.data_len_bytes,
            false => self.prefix.original_len_bytes(),
        }
    }

    /// Returns whether the file has a trailer, which contains digests of the
    /// base's table and of the restored file. Files written by z4ai have none.
    #[must_use]
    pub fn has_trailer(&self) -> bool {
        self.trailer.is_some()
    }

    /// Returns whether the trailer has a digest for every tensor.
    #[must_use]
    pub fn has_tensor_digests(&self) -> bool {
        self.contents().is_some()
    }

    /// Checks that `base` is the checkpoint that this delta was made against,
    /// given the digest of the base's data ([`DataDigest`](super::DataDigest)).
    ///
    /// # Errors
    /// [`Rule::DeltaReference`] if `base` is another checkpoint.
    pub fn check_base(&self, base: &BaseHeader, data_digest: [u8; 8]) -> Result<()> {
        let wrong = |detail| Error::malformed(Rule::DeltaReference, detail);
        if data_digest != self.prefix.base_digest {
            return Err(wrong(
                "the base is not the checkpoint this delta was made against",
            ));
        }
        match &self.trailer {
            Some(trailer) if trailer.base_table != base.table_digest() => Err(wrong(
                "the base contains the same bytes as the one this delta was made against, but \
                 under other names",
            )),
            _ => {
                let records = self.contents().into_iter().flat_map(|all| &all.records);
                let lens = records.filter_map(|info| {
                    let range = base.range_of(info.source?.number as usize)?;
                    Some(range.end - range.start)
                });
                let data = base.data();
                check_uses(lens, data.end - data.start)
            }
        }
    }

    pub(super) fn record(&self, number: usize) -> Result<&DeltaRecord> {
        let record = self.records.get(number);
        record.ok_or_else(|| Error::no_such("record", number, self.records.len()))
    }

    /// Checks record `number` as far as that is possible without decoding its
    /// `payload`. If this succeeds, the sizes of the file and of the base
    /// justify the length of the tensor.
    pub fn check(&self, number: usize, payload: &[u8], base: &BaseHeader) -> Result<()> {
        let record = self.record(number)?;
        let checked = self.reference(number, base).and_then(|reference| {
            let of_base = reference.map_or(0, |range| range.end - range.start);
            let len = record.len_bytes();
            check_payload(record.kind, payload, len, of_base, self.prefix.edition)
        });
        checked.map_err(|error| error.within(record.payload.start).tensor(&record.name))
    }

    /// Returns the range of the base's file that record `number` is decoded
    /// from, or `None` if the record does not depend on the base.
    pub fn reference(&self, number: usize, base: &BaseHeader) -> Result<Option<Range<u64>>> {
        let record = self.record(number)?;
        let info = self.contents().and_then(|all| all.records.get(number));
        match (record.kind, info.and_then(|info| info.source)) {
            (RecordKind::Full, _) => Ok(None),
            (_, Some(source)) => base.source(&record.name, &source).map(Some),
            (_, None) => base.tensor(&record.name, record.len_bytes()).map(Some),
        }
    }

    /// Decodes the tensor of record `number` from its payload and the bytes of
    /// its [`DeltaTable::reference`].
    pub fn decode<'b, E: Engine>(
        &self,
        engine: &E,
        number: usize,
        payload: &[u8],
        reference: Option<&'b [u8]>,
    ) -> Result<Cow<'b, [u8]>> {
        let record = self.record(number)?;
        let reference = reference.map(|bytes| Reference {
            bytes,
            digest: None,
        });
        let tensor = decode_payload(engine, record, self.prefix.edition, payload, reference)?;
        if let Some(contents) = self.contents() {
            contents.records[number].check_tensor(&record.name, &tensor)?;
        }
        Ok(tensor)
    }

    /// Returns the numbers of the records whose spans overlap with another
    /// record. After all tensors have been written,
    /// [`DeltaTable::check_shared`] must compare these with the result.
    #[must_use]
    pub fn overlapping(&self) -> Vec<usize> {
        let starts = self.records.iter().map(|record| (record.span.start, 0));
        let mut order = sort::by_key(starts);
        order.retain(|&number| !self.records[number].span.is_empty());
        let mut shared = Vec::new();
        // The number of the record with the largest end so far, and whether
        // `shared` contains it.
        let mut furthest: Option<(usize, bool)> = None;
        for number in order {
            let Range { start, end } = self.records[number].span;
            let reach = furthest.map_or(0, |(first, _)| self.records[first].span.end);
            let overlaps = start < reach;
            if let (true, Some((first, listed))) = (overlaps, &mut furthest) {
                if !*listed {
                    shared.push(*first);
                    *listed = true;
                }
                shared.push(number);
            }
            if end > reach {
                furthest = Some((number, overlaps));
            }
        }
        shared
    }

    /// Fails if overlapping tensors disagree: `written` contains the bytes of
    /// the result in the span of `record`, and `tensor` the decoded bytes.
    pub fn check_shared(&self, record: &DeltaRecord, written: &[u8], tensor: &[u8]) -> Result<()> {
        if written == tensor {
            return Ok(());
        }
        Err(Error::malformed(
            Rule::DeltaCoverage,
            "the tensor shares bytes with another one, and the two decode to different bytes",
        )
        .tensor(&record.name))
    }

    /// Starts the comparison of the restored file with the BLAKE3 in the
    /// trailer; `None` if the file has no trailer.
    #[must_use]
    pub fn restored_check(&self) -> Option<RestoredCheck> {
        self.trailer.as_ref().map(|trailer| RestoredCheck {
            hasher: blake3::Hasher::new(),
            expected: trailer.target,
        })
    }
}

/// Hashes a restored file and compares the digest with the trailer.
#[derive(Debug)]
pub struct RestoredCheck {
    hasher: blake3::Hasher,
    expected: [u8; 32],
}

impl RestoredCheck {
    /// Adds the next bytes of the file, starting with its first.
    #[must_use]
    pub fn with(mut self, bytes: &[u8]) -> Self {
        self.hasher.update(bytes);
        self
    }

    /// Compares the digest of the added bytes with the one in the trailer.
    ///
    /// # Errors
    /// [`Rule::DeltaRestored`] if the digests differ.
    pub fn finish(self) -> Result<()> {
        if *self.hasher.finalize().as_bytes() == self.expected {
            return Ok(());
        }
        Err(Error::malformed(
            Rule::DeltaRestored,
            "the restored checkpoint is not the one that was packed: the delta is damaged",
        ))
    }
}
