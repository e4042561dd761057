//! The bytes of the base that a record is decoded from, if they are not the
//! tensor of the record's name (docs/formats/zstn-delta.md 7).

use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::record::RecordKind;
use super::trailer::ShortDigest;
use crate::bytes::{Cursor, part};
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
    pub(super) const ENTRY_BYTES: u64 = 37;

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

/// The payload of a [`RecordKind::Grown`] record: the beginning of the tensor,
/// which is decoded from the base, and a frame of the rest.
#[derive(Debug, Clone, Copy)]
pub struct Grown<'a> {
    /// How the beginning is stored: as a delta, a difference or a copy.
    pub(super) kind: RecordKind,
    /// The payload of the beginning.
    pub(super) front: &'a [u8],
    /// The frame of the rest.
    pub(super) back: &'a [u8],
}

impl<'a> Grown<'a> {
    /// The number of bytes before the payload of the beginning.
    pub(crate) const HEAD_BYTES: u64 = 9;

    /// Splits the payload.
    pub(super) fn parse(payload: &'a [u8]) -> Result<Self> {
        let (kind, len_bytes) = Self::head(payload)?;
        let rest = part(payload, Self::HEAD_BYTES..payload.len() as u64);
        if len_bytes > rest.len() as u64 {
            let detail = "the first part of the payload is longer than the payload";
            return Err(Error::malformed(Rule::DeltaRecord, detail).at(1));
        }
        Ok(Self {
            kind,
            front: part(rest, 0..len_bytes),
            back: part(rest, len_bytes..rest.len() as u64),
        })
    }

    /// Reads the kind of the beginning and the length of its payload from the
    /// first bytes of a payload.
    pub(crate) fn head(payload: &[u8]) -> Result<(RecordKind, u64)> {
        let mut cursor = Cursor::new(payload);
        let id = cursor.u8("kind of a beginning")?;
        let kinds = [RecordKind::Delta, RecordKind::Copy, RecordKind::Difference];
        let Some(kind) = kinds.into_iter().find(|kind| *kind as u8 == id) else {
            let detail = format!("a tensor cannot begin with a record of kind {id}");
            return Err(Error::malformed(Rule::DeltaKind, detail).at(0));
        };
        let len_bytes = cursor.u64("length of a beginning")?;
        if kind == RecordKind::Copy && len_bytes != 0 {
            let detail = "a copy has no payload";
            return Err(Error::malformed(Rule::DeltaRecord, detail).at(1));
        }
        Ok((kind, len_bytes))
    }

    /// Returns the bytes before the payload of a beginning of this kind.
    #[must_use]
    pub fn head_to_bytes(kind: RecordKind, front_len_bytes: u64) -> Vec<u8> {
        [&[kind as u8][..], &front_len_bytes.to_le_bytes()].concat()
    }
}
