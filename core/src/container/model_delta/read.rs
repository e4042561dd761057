//! A delta and its base back to the target.

use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use super::record::{self, Content, Record};
use super::seal::Seal;
use super::{Base, MAGIC, VERSION};
use crate::bytes::{self, Cursor, part};
use crate::engine::Engine;
use crate::frame::Stored;
use crate::frame::delta::Delta;
use crate::{Error, Result, Rule};

/// A delta file whose records cover the target's data.
#[derive(Debug)]
pub struct ModelDelta<'a> {
    file: &'a [u8],
    header: Range<u64>,
    data_len_bytes: u64,
    base_digest: [u8; 8],
    records: Vec<Record>,
    seal: Option<Seal>,
}

impl<'a> ModelDelta<'a> {
    /// Reads head, records and seal.
    pub fn parse(file: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(file);
        if cursor.take(4, "delta magic")? != MAGIC {
            return Err(Error::malformed(Rule::DeltaMagic, "not a Z4DM delta").at(0));
        }
        let version = cursor.u8("delta version")?;
        if version != VERSION {
            return Err(Error::malformed(
                Rule::DeltaVersion,
                format!("Z4DM version {version}, only {VERSION} exists"),
            )
            .at(4));
        }
        let header_len = cursor.u64("header length")?;
        let start = cursor.position() as u64;
        cursor.take(header_len, "header of the target")?;
        let data_len_bytes = cursor.u64("data length")?;
        let mut base_digest = [0; 8];
        base_digest.copy_from_slice(cursor.take(8, "digest of the base")?);
        let records = record::read(&mut cursor, data_len_bytes)?;
        let end = cursor.position() as u64;
        let seal = Seal::parse(part(file, end..file.len() as u64))?;
        Ok(Self {
            file,
            header: start..start + header_len,
            data_len_bytes,
            base_digest,
            records,
            seal,
        })
    }

    /// The records in file order.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The header of the target.
    #[must_use]
    pub fn header(&self) -> &'a [u8] {
        part(self.file, self.header.clone())
    }

    /// Length of the restored file.
    #[must_use]
    pub fn original_len_bytes(&self) -> u64 {
        (8 + self.header.end - self.header.start).saturating_add(self.data_len_bytes)
    }

    /// Whether the file carries digests of its base's names and of the
    /// restored file; those made by z4ai do not.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.seal.is_some()
    }

    /// Refuses a base that is not the one this delta was made against.
    pub fn check_base(&self, base: &Base) -> Result<()> {
        let wrong = |detail| Error::malformed(Rule::DeltaReference, detail);
        if base.digest() != self.base_digest {
            return Err(wrong(
                "the base is not the checkpoint this delta was made against",
            ));
        }
        match &self.seal {
            Some(seal) if seal.base_table != base.table_digest() => Err(wrong(
                "the base holds the same bytes as the one this delta was made against, but under \
                 other names",
            )),
            _ => Ok(()),
        }
    }

    /// The bytes of the tensor of record `number`.
    ///
    /// # Panics
    /// If there is no record of that number.
    pub fn decode<E: Engine>(&self, engine: &E, number: usize, base: &Base) -> Result<Vec<u8>> {
        let record = &self.records[number];
        let len = record.span.end - record.span.start;
        let decoded = match &record.content {
            Content::Copy => return Ok(base.bytes(&record.name, &record.span)?.to_vec()),
            Content::Full(place) => Stored::parse(part(self.file, place.clone()), len)
                .and_then(|frame| {
                    let mut out = bytes::buffer(len)?;
                    frame.decode(engine, &mut out)?;
                    Ok(out)
                })
                .map_err(|error| error.within(place.start)),
            Content::Delta(place) => Delta::parse(part(self.file, place.clone()))
                .map_err(|error| error.within(place.start))
                .and_then(|delta| {
                    let reference = base.bytes(&record.name, &record.span)?;
                    delta
                        .decode(engine, reference)
                        .map_err(|error| error.within(place.start))
                }),
        };
        decoded.map_err(|error| error.tensor(&record.name))
    }

    /// The whole target. Everything that can be checked is: lengths, the
    /// base, overlapping tensors, and the digest of the result if there is
    /// one.
    pub fn unpack<E: Engine>(&self, engine: &E, base: &Base) -> Result<Vec<u8>> {
        self.check_base(base)?;
        let numbers: Vec<usize> = (0..self.records.len()).collect();
        let tensors = engine
            .map(numbers, |number| self.decode(engine, number, base))
            .into_iter()
            .collect::<Result<Vec<_>>>()?;
        // The tensors together have shown that the data are this long.
        let mut out = Vec::new();
        let header = self.header();
        out.extend_from_slice(&(header.len() as u64).to_le_bytes());
        out.extend_from_slice(header);
        let data_start = out.len();
        out.resize(data_start + bytes::index(self.data_len_bytes), 0);
        for (record, tensor) in self.records.iter().zip(&tensors) {
            let place = &mut out[data_start..]
                [bytes::index(record.span.start)..bytes::index(record.span.end)];
            place.copy_from_slice(tensor);
        }
        self.check_overlaps(&out[data_start..], &tensors)?;
        if let Some(seal) = &self.seal
            && *blake3::hash(&out).as_bytes() != seal.target
        {
            return Err(Error::malformed(
                Rule::DeltaRestored,
                "the restored checkpoint is not the one that was packed: the delta is damaged",
            ));
        }
        Ok(out)
    }

    /// Tensors that share bytes must agree on them.
    fn check_overlaps(&self, data: &[u8], tensors: &[Vec<u8>]) -> Result<()> {
        for (record, tensor) in self.records.iter().zip(tensors) {
            if part(data, record.span.clone()) != tensor.as_slice() {
                return Err(Error::malformed(
                    Rule::DeltaCoverage,
                    "the tensor shares bytes with another one that says otherwise",
                )
                .tensor(&record.name));
            }
        }
        Ok(())
    }
}
