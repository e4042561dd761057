//! The fields of the trailer that name the bytes of the base that records are
//! decoded from, if these are not the tensors with the names of the records
//! (docs/formats/zstn-delta.md 6 and 7).

use alloc::format;
use alloc::vec::Vec;
use core::iter;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::record::{DeltaRecord, RecordKind};
use super::trailer::{RecordInfo, ShortDigest, short_digest};
use crate::bytes::Cursor;
use crate::{Error, Result, Rule};

/// The tensors that records refer to have at most this many times the length of
/// the base's data. Otherwise a few bytes could make a reader decode one tensor
/// again and again.
const MAX_USES: u64 = 16;

/// A range of a tensor of the base.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseRange {
    /// The number of the base's tensor in ascending order of the names.
    pub(crate) number: u32,
    /// The offset of the range in the tensor.
    pub(crate) start: u64,
    /// The length of the range in bytes.
    pub(crate) len_bytes: u64,
    /// The digest of the whole tensor of the base.
    pub(crate) digest: ShortDigest,
}

impl BaseRange {
    /// The length of an entry of `SRCS` that has a range.
    pub(crate) const ENTRY_BYTES: u64 = 37;

    pub(super) fn read(cursor: &mut Cursor) -> Result<Self> {
        Ok(Self {
            number: cursor.u32("number of a source")?,
            start: cursor.u64("offset of a source")?,
            len_bytes: cursor.u64("length of a source")?,
            digest: cursor.array("digest of a source")?,
        })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.start.to_le_bytes());
        out.extend_from_slice(&self.len_bytes.to_le_bytes());
        out.extend_from_slice(&self.digest);
    }

    /// Returns the range in the base's tensor, which has `tensor_len_bytes`.
    /// `name` is the name of the record.
    ///
    /// # Errors
    /// [`Rule::DeltaBaseTensor`] for a range that ends after the tensor.
    pub(crate) fn span(&self, name: &str, tensor_len_bytes: u64) -> Result<Range<u64>> {
        let end = self.start.checked_add(self.len_bytes);
        match end.filter(|end| *end <= tensor_len_bytes) {
            Some(end) => Ok(self.start..end),
            None => Err(outside(name)),
        }
    }
}

/// Reads the sources of the records that refer to the base. They have a digest of their
/// own, since parts of tensors are read without comparing the tensor with its digest.
pub(super) fn read_sources(field: &[u8], records: &mut [RecordInfo]) -> Result<()> {
    let mut cursor = Cursor::new(field);
    let digest: ShortDigest = cursor.array("digest of the sources")?;
    if short_digest([&field[digest.len()..]]) != digest {
        return Err(Error::malformed(
            Rule::DeltaSeal,
            "the sources are not the ones that were packed: the delta is damaged",
        ));
    }
    for info in records.iter_mut().filter(|info| info.refers()) {
        info.source = match cursor.u8("type of a source")? {
            0 => None,
            1 => Some(BaseRange::read(&mut cursor)?),
            _ => {
                let detail = "the trailer has an entry of an unknown type";
                return Err(Error::malformed(Rule::DeltaSeal, detail));
            }
        };
    }
    match cursor.remaining() {
        0 => Ok(()),
        _ => Err(Error::malformed(
            Rule::DeltaSeal,
            "the trailer does not have one source for each record that uses the base",
        )),
    }
}

pub(super) fn write_sources(records: &[RecordInfo]) -> Vec<u8> {
    let mut out = Vec::new();
    for info in records.iter().filter(|info| info.refers()) {
        out.push(u8::from(info.source.is_some()));
        if let Some(source) = &info.source {
            source.write(&mut out);
        }
    }
    [&short_digest([&*out])[..], &out].concat()
}

/// The places of the bytes that records refer to, in the file of a base that is not a
/// safetensors file (docs/formats/zstn-delta.md 6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct References {
    /// The length of the base's file in bytes.
    pub base_len_bytes: u64,
    /// The offset in the base's file for each record that is not stored in full, in
    /// record order.
    pub offsets: Vec<u64>,
}

impl References {
    pub(super) fn read(field: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(field);
        let base_len_bytes = cursor.u64("length of the base")?;
        let mut offsets = Vec::new();
        while cursor.remaining() > 0 {
            offsets.push(cursor.u64("offset in the base")?);
        }
        Ok(Self {
            base_len_bytes,
            offsets,
        })
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let fields = iter::once(&self.base_len_bytes).chain(&self.offsets);
        fields.flat_map(|field| field.to_le_bytes()).collect()
    }

    /// Returns the range of the base's file for each of `records` that is not stored in
    /// full, with the number of the record. They have the kinds that the trailer lists.
    ///
    /// # Errors
    /// [`Rule::DeltaReference`] if `base_len_bytes` is not the length of the base,
    /// [`Rule::DeltaBaseTensor`] for a range that ends after it.
    pub(crate) fn ranges<'r>(
        &self,
        records: impl Iterator<Item = &'r DeltaRecord>,
        base_len_bytes: u64,
    ) -> Result<Vec<(usize, Range<u64>)>> {
        if base_len_bytes != self.base_len_bytes {
            return Err(Error::malformed(
                Rule::DeltaReference,
                format!(
                    "the base is not the file this delta was made against: it has \
                     {base_len_bytes} bytes instead of {}",
                    self.base_len_bytes
                ),
            ));
        }
        let referring = records
            .enumerate()
            .filter(|(_, record)| record.kind != RecordKind::Full);
        let ranges = referring
            .zip(&self.offsets)
            .map(|((number, record), &start)| {
                let end = start.checked_add(record.len_bytes());
                match end.filter(|end| *end <= base_len_bytes) {
                Some(end) => Ok((number, start..end)),
                None => Err(Error::malformed(
                    Rule::DeltaBaseTensor,
                    "the trailer refers to bytes after the end of the base: the delta is damaged",
                )
                .tensor(&record.name)),
            }
            });
        ranges.collect()
    }
}

/// Creates the error for a source that the base does not have.
pub(crate) fn outside(name: &str) -> Error {
    Error::malformed(
        Rule::DeltaBaseTensor,
        "the trailer refers to bytes that the base does not have: the base is another one, or \
         the delta is damaged",
    )
    .tensor(name)
}

/// Fails if the tensors that the sources of a delta refer to, which have these
/// lengths, are longer than any delta from a base with `data_len_bytes` of data
/// needs.
pub(crate) fn check_uses(lens: impl Iterator<Item = u64>, data_len_bytes: u64) -> Result<()> {
    let total = lens.fold(0, u64::saturating_add);
    if total <= max_total_bytes(data_len_bytes) {
        return Ok(());
    }
    Err(Error::malformed(
        Rule::DeltaSeal,
        format!(
            "the records refer to tensors of {total} bytes in a base of {data_len_bytes} bytes, \
             more than {MAX_USES} times its length: the delta is damaged"
        ),
    ))
}

/// Returns the greatest total length of the tensors that the sources of a delta
/// refer to.
pub(super) fn max_total_bytes(data_len_bytes: u64) -> u64 {
    data_len_bytes.saturating_mul(MAX_USES)
}
