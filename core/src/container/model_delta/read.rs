//! Restores the target from a delta and its base.

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;
use core::ops::{Deref, Range};

use super::announcement::is_announced;
use super::base::{Base, BaseHeader};
use super::prefix::Prefix;
use super::record::{self, Kind, Record};
use super::trailer::{Contents, ShortDigest, Trailer, short_digest};
use crate::bytes::{self, index, part};
use crate::container::safetensors::Header;
use crate::engine::Engine;
use crate::frame::delta::Delta;
use crate::frame::difference::Difference;
use crate::frame::{Edition, Stored};
use crate::{Error, Result, Rule, sort};

/// Everything in a delta file but the payloads of its records, which cover the
/// target's data.
#[derive(Debug)]
pub struct DeltaTable {
    /// The bytes before the records.
    head: Vec<u8>,
    prefix: Prefix,
    records: Vec<Record>,
    trailer: Option<Trailer>,
}

/// The first bytes that are fetched of a delta file: enough for
/// [`Prefix::len_bytes`].
const START_BYTES: u64 = 64;

/// The first bytes of a payload, which hold its flags.
const FLAGS_BYTES: u64 = 16;

impl DeltaTable {
    /// Reads prefix, records and trailer of a file of `len_bytes`, of which `fetch`
    /// returns ranges, and checks that they agree.
    ///
    /// # Errors
    /// The errors of `fetch`, and a file that breaks a rule.
    pub fn read<'f, E: From<Error>>(
        len_bytes: u64,
        fetch: &mut dyn FnMut(Range<u64>) -> Result<Cow<'f, [u8]>, E>,
    ) -> Result<Self, E> {
        let start = fetch(0..len_bytes.min(START_BYTES))?;
        let prefix_len = Prefix::len_bytes(&start, len_bytes)?;
        let head = fetch(0..prefix_len)?.into_owned();
        let prefix = Prefix::parse(&head, len_bytes)?;
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

    fn contents(&self) -> Option<&Contents> {
        self.trailer.as_ref()?.contents.as_ref()
    }

    fn check_contents(&self, contents: &Contents) -> Result<()> {
        contents.check_header(self.header())?;
        let tensors = Header::parse(self.header(), self.prefix.data_len_bytes)?.tensors;
        let same_count = tensors.len() == self.records.len();
        if !same_count || contents.records.len() != self.records.len() {
            return Err(Error::malformed(
                Rule::DeltaPlaces,
                "header, records and trailer do not list the same number of tensors",
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
        }
        Ok(())
    }

    /// Returns the fields before the records.
    #[must_use]
    pub fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// Returns the records in file order.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Returns the header of the target.
    #[must_use]
    pub fn header(&self) -> &[u8] {
        part(&self.head, self.prefix.header.clone())
    }

    /// Returns the length of the target's data buffer.
    #[must_use]
    pub fn data_len_bytes(&self) -> u64 {
        self.prefix.data_len_bytes
    }

    /// Returns the length of the restored file.
    #[must_use]
    pub fn original_len_bytes(&self) -> u64 {
        self.prefix.original_len_bytes()
    }

    /// Returns whether the file has a trailer, with digests of its base's names
    /// and of the restored file; those made by z4ai do not.
    #[must_use]
    pub fn has_trailer(&self) -> bool {
        self.trailer.is_some()
    }

    /// Returns whether every tensor has a digest in the trailer.
    #[must_use]
    pub fn has_tensor_digests(&self) -> bool {
        self.contents().is_some()
    }

    /// Refuses a base that this delta was not made against, given the digest of its
    /// data ([`DataDigest`](super::DataDigest)).
    pub fn check_base(&self, base: &BaseHeader, data_digest: [u8; 8]) -> Result<()> {
        let wrong = |detail| Error::malformed(Rule::DeltaReference, detail);
        if data_digest != self.prefix.base_digest {
            return Err(wrong(
                "the base is not the checkpoint this delta was made against",
            ));
        }
        match &self.trailer {
            Some(trailer) if trailer.base_table != base.table_digest() => Err(wrong(
                "the base holds the same bytes as the one this delta was made against, but under \
                 other names",
            )),
            _ => Ok(()),
        }
    }

    fn record(&self, number: usize) -> Result<&Record> {
        let record = self.records.get(number);
        record.ok_or_else(|| Error::no_such("record", number, self.records.len()))
    }

    /// Checks everything in record `number`, with this payload, that can be checked
    /// without decoding. After this, file and base have justified the length of the
    /// tensor.
    pub fn check(&self, number: usize, payload: &[u8], base: &BaseHeader) -> Result<()> {
        let record = self.record(number)?;
        let len = record.len_bytes();
        let in_base = || base.tensor(&record.name, len).map(drop);
        let checked = match record.kind {
            Kind::Full => Stored::parse(payload, len, self.prefix.edition).map(|_| ()),
            Kind::Delta => Delta::parse(payload)
                .and_then(|delta| delta.check())
                .and_then(|()| in_base()),
            Kind::Difference => Difference::parse(payload)
                .and_then(|difference| check_len(difference.len_bytes(), len))
                .and_then(|()| in_base()),
            Kind::Copy => in_base(),
        };
        checked.map_err(|error| error.within(record.payload.start).tensor(&record.name))
    }

    /// Returns the range of the base's file that the tensor of record `number` is
    /// made from; `None` for a tensor that needs no base.
    pub fn reference(&self, number: usize, base: &BaseHeader) -> Result<Option<Range<u64>>> {
        let record = self.record(number)?;
        match record.kind {
            Kind::Full => Ok(None),
            _ => base.tensor(&record.name, record.len_bytes()).map(Some),
        }
    }

    /// Decodes the tensor of record `number` from its payload and from the bytes of
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

    /// Returns the numbers of the records whose spans overlap those of others.
    /// Their tensors have to be compared with the result by
    /// [`DeltaTable::check_shared`].
    #[must_use]
    pub fn overlapping(&self) -> Vec<usize> {
        let starts = self.records.iter().map(|record| (record.span.start, 0));
        let mut order = sort::by_key(starts);
        order.retain(|&number| !self.records[number].span.is_empty());
        let mut shared = Vec::new();
        // The record that reaches furthest so far, and whether it is listed.
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

    /// Refuses tensors that overlap and disagree: `written` is what the result
    /// has at the span of `tensor`.
    pub fn check_shared(&self, record: &Record, written: &[u8], tensor: &[u8]) -> Result<()> {
        if written == tensor {
            return Ok(());
        }
        Err(Error::malformed(
            Rule::DeltaCoverage,
            "the tensor shares bytes with another one that says otherwise",
        )
        .tensor(&record.name))
    }

    /// Starts comparing the restored file with the BLAKE3 in the trailer; `None`
    /// if the file has no trailer.
    #[must_use]
    pub fn restored_check(&self) -> Option<RestoredCheck> {
        self.trailer.as_ref().map(|trailer| RestoredCheck {
            hasher: blake3::Hasher::new(),
            expected: trailer.target,
        })
    }
}

/// Hashes a restored file from its first byte to its last.
#[derive(Debug)]
pub struct RestoredCheck {
    hasher: blake3::Hasher,
    expected: [u8; 32],
}

impl RestoredCheck {
    /// Adds the next bytes.
    #[must_use]
    pub fn with(mut self, bytes: &[u8]) -> Self {
        self.hasher.update(bytes);
        self
    }

    /// Compares the digest.
    ///
    /// # Errors
    /// [`Rule::DeltaRestored`] if the file is another one.
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

/// Refuses a file that announces a trailer and has none.
pub fn lost_trailer() -> Error {
    Error::malformed(
        Rule::DeltaSeal,
        "the delta was packed with a trailer, and has none: it is cut off, get it again",
    )
}

/// A delta file in memory.
#[derive(Debug)]
pub struct ModelDelta<'a> {
    file: &'a [u8],
    table: DeltaTable,
}

impl Deref for ModelDelta<'_> {
    type Target = DeltaTable;

    fn deref(&self) -> &DeltaTable {
        &self.table
    }
}

impl<'a> ModelDelta<'a> {
    /// Parses prefix, records and trailer, and checks that they agree.
    pub fn parse(file: &'a [u8]) -> Result<Self> {
        let mut fetch = |range| Ok::<_, Error>(Cow::Borrowed(part(file, range)));
        let table = DeltaTable::read(file.len() as u64, &mut fetch)?;
        Ok(Self { file, table })
    }

    /// Decodes the tensor of record `number` against `base`.
    pub fn decode<'b, E: Engine>(
        &self,
        engine: &E,
        number: usize,
        base: &Base<'b>,
    ) -> Result<Cow<'b, [u8]>> {
        let payload = part(self.file, self.table.record(number)?.payload.clone());
        let reference = self.table.reference(number, base.header())?;
        let reference = reference.map(|range| base.part(range));
        self.table.decode(engine, number, payload, reference)
    }

    /// Restores the whole target. Everything that can be checked is checked:
    /// lengths, the base, overlapping tensors, and the digest of the result if
    /// there is one.
    pub fn unpack<E: Engine>(&self, engine: &E, base: &Base) -> Result<Vec<u8>> {
        self.check_base(base.header(), base.digest())?;
        let numbers: Vec<usize> = (0..self.records.len()).collect();
        let tensors = engine
            .map(numbers, |number| self.decode(engine, number, base))
            .into_iter()
            .collect::<Result<Vec<_>>>()?;
        // The tensors together have proved that the data are this long.
        let mut out = Vec::new();
        let header = self.header();
        out.extend_from_slice(&(header.len() as u64).to_le_bytes());
        out.extend_from_slice(header);
        let data_start = out.len();
        let len_bytes = (data_start as u64).saturating_add(self.prefix.data_len_bytes);
        bytes::resize(&mut out, len_bytes)?;
        for (record, tensor) in self.records.iter().zip(&tensors) {
            let dest = &mut out[data_start..][index(record.span.start)..index(record.span.end)];
            dest.copy_from_slice(tensor);
        }
        let data = &out[data_start..];
        for (record, tensor) in self.records.iter().zip(&tensors) {
            self.check_shared(record, part(data, record.span.clone()), tensor)?;
        }
        if let Some(check) = self.restored_check() {
            check.with(&out).finish()?;
        }
        Ok(out)
    }
}

/// Refuses a payload that decodes to another length than that of its tensor.
fn check_len(found_bytes: u64, len_bytes: u64) -> Result<()> {
    if found_bytes == len_bytes {
        return Ok(());
    }
    Err(Error::malformed(
        Rule::ZstnDecodedLength,
        format!("the frame holds {found_bytes} bytes where {len_bytes} are expected"),
    )
    .at(0))
}

/// The base's tensor of the same name as one that is decoded.
#[derive(Debug, Clone, Copy)]
pub struct Reference<'a> {
    /// The tensor; its length has been checked.
    pub bytes: &'a [u8],
    /// The digest that the base holds of it, if it need not be computed: callers
    /// compare the digest of what is decoded.
    pub digest: Option<ShortDigest>,
}

/// Decodes the tensor of `record`, in a file of this `edition`, from its payload and, unless that is a frame
/// of its own, from the base's tensor with the same name.
pub fn decode_payload<'b, E: Engine>(
    engine: &E,
    record: &Record,
    edition: Edition,
    payload: &[u8],
    reference: Option<Reference<'b>>,
) -> Result<Cow<'b, [u8]>> {
    let len = record.len_bytes();
    let decoded = match (record.kind, reference) {
        (Kind::Full, _) => Stored::parse(payload, len, edition).and_then(|frame| {
            let mut out = bytes::buffer(len)?;
            frame.decode(engine, &mut out)?;
            Ok(Cow::Owned(out))
        }),
        (Kind::Copy, Some(reference)) => Ok(Cow::Borrowed(reference.bytes)),
        (Kind::Delta, Some(reference)) => Delta::parse(payload)
            .and_then(|delta| delta.decode(engine, reference.bytes))
            .map(Cow::Owned),
        (Kind::Difference, Some(reference)) => Difference::parse(payload)
            .and_then(|difference| {
                check_len(difference.len_bytes(), len)?;
                difference.decode_from(engine, reference.bytes, reference.digest)
            })
            .map(Cow::Owned),
        (_, None) => Err(Error::invalid_input(
            "the tensor cannot be restored without the base",
        )),
    };
    decoded.map_err(|error| error.within(record.payload.start).tensor(&record.name))
}

impl Contents {
    /// Refuses a header that is not the one that was packed.
    pub fn check_header(&self, header: &[u8]) -> Result<()> {
        if short_digest([header]) == self.header {
            return Ok(());
        }
        Err(Error::malformed(
            Rule::DeltaHeader,
            "the header is not the one that was packed: the delta is damaged",
        ))
    }
}

impl super::RecordInfo {
    /// Refuses a tensor that is not the one that was packed.
    pub fn check_tensor(&self, name: &str, tensor: &[u8]) -> Result<()> {
        if short_digest([tensor]) == self.digest {
            return Ok(());
        }
        Err(Error::malformed(
            Rule::DeltaTensor,
            "the restored tensor is not the one that was packed: the delta is damaged, or the \
             base is another one",
        )
        .tensor(name))
    }
}
