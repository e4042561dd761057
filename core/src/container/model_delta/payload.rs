//! Checks and decodes the payloads of records (docs/formats/z4ai-containers.md 4.1,
//! zstn-delta.md 7).

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;

use super::record::{DeltaRecord, RecordKind};
use super::trailer::ShortDigest;
use crate::bytes::{self, Cursor, index, part};
use crate::engine::Engine;
use crate::frame::delta::Delta;
use crate::frame::difference::Difference;
use crate::frame::{ContainedFrame, Edition};
use crate::{Error, Result, Rule};

/// The payload of a [`RecordKind::Grown`] record: the beginning of the tensor,
/// which is decoded from the base, and a frame of the rest.
#[derive(Debug, Clone, Copy)]
pub struct Grown<'a> {
    /// How the beginning is stored: as a delta, a difference or a copy.
    kind: RecordKind,
    /// The payload of the beginning.
    front: &'a [u8],
    /// The frame of the rest.
    back: &'a [u8],
}

impl<'a> Grown<'a> {
    /// The number of bytes before the payload of the beginning.
    pub(crate) const HEAD_BYTES: u64 = 9;

    /// Splits the payload.
    fn parse(payload: &'a [u8]) -> Result<Self> {
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

/// Checks the payload of a tensor of `len_bytes` as far as that is possible
/// without decoding it. It refers to `reference_bytes` of the base.
pub(super) fn check_payload(
    kind: RecordKind,
    payload: &[u8],
    len_bytes: u64,
    reference_bytes: u64,
    edition: Edition,
) -> Result<()> {
    match kind {
        RecordKind::Full => ContainedFrame::parse(payload, len_bytes, edition).map(|_| ()),
        RecordKind::Delta => Delta::parse(payload).and_then(|delta| delta.check()),
        RecordKind::Difference => Difference::parse(payload)
            .and_then(|difference| check_len(difference.len_bytes(), len_bytes)),
        RecordKind::Copy => Ok(()),
        RecordKind::Grown => {
            let Grown { kind, front, back } = Grown::parse(payload)?;
            let at = Grown::HEAD_BYTES;
            check_payload(kind, front, reference_bytes, reference_bytes, edition)
                .map_err(|error| error.within(at))?;
            let rest = len_bytes.saturating_sub(reference_bytes);
            check_payload(RecordKind::Full, back, rest, 0, edition)
                .map_err(|error| error.within(at + front.len() as u64))
        }
    }
}

/// Fails if a payload does not decode to the length of its tensor.
fn check_len(found_bytes: u64, len_bytes: u64) -> Result<()> {
    if found_bytes == len_bytes {
        return Ok(());
    }
    Err(Error::malformed(
        Rule::ZstnDecodedLength,
        format!("the frame has {found_bytes} bytes where {len_bytes} are expected"),
    )
    .at(0))
}

/// The base's tensor that another tensor is decoded from.
#[derive(Debug, Clone, Copy)]
pub struct Reference<'a> {
    /// The bytes of the tensor, whose length has been checked.
    pub bytes: &'a [u8],
    /// The digest that the base's file stores for the tensor. If it is set, it
    /// is used instead of a computed one, and the caller must compare the
    /// digest of the result.
    pub digest: Option<ShortDigest>,
}

/// Decodes the tensor of `record`, in a file of this `edition`, from its
/// payload and, if the record depends on it, from the bytes of the base that it
/// refers to.
pub(crate) fn decode_payload<'b, E: Engine>(
    engine: &E,
    record: &DeltaRecord,
    edition: Edition,
    payload: &[u8],
    reference: Option<Reference<'b>>,
) -> Result<Cow<'b, [u8]>> {
    let len = record.len_bytes();
    decode(engine, record.kind, edition, payload, len, reference)
        .map_err(|error| error.within(record.payload.start).tensor(&record.name))
}

/// Decodes a tensor of `len_bytes` from a payload of this `kind` and the bytes of
/// the base, if it depends on them.
fn decode<'b, E: Engine>(
    engine: &E,
    kind: RecordKind,
    edition: Edition,
    payload: &[u8],
    len_bytes: u64,
    reference: Option<Reference<'b>>,
) -> Result<Cow<'b, [u8]>> {
    match (kind, reference) {
        (RecordKind::Full, _) => {
            let frame = ContainedFrame::parse(payload, len_bytes, edition)?;
            let mut out = bytes::buffer(len_bytes)?;
            frame.decode(engine, &mut out)?;
            Ok(Cow::Owned(out))
        }
        (_, None) => Err(Error::invalid_input(
            "the tensor cannot be restored without the base",
        )),
        (RecordKind::Copy, Some(reference)) => Ok(Cow::Borrowed(reference.bytes)),
        (RecordKind::Delta, Some(reference)) => {
            let delta = Delta::parse(payload)?;
            delta.decode(engine, reference.bytes).map(Cow::Owned)
        }
        (RecordKind::Difference, Some(reference)) => {
            let difference = Difference::parse(payload)?;
            check_len(difference.len_bytes(), len_bytes)?;
            let decoded = difference.decode_from(engine, reference.bytes, reference.digest);
            decoded.map(Cow::Owned)
        }
        (RecordKind::Grown, Some(of_base)) => {
            let Grown { kind, front, back } = Grown::parse(payload)?;
            let front_len = of_base.bytes.len() as u64;
            let in_back = |error: Error| error.within(Grown::HEAD_BYTES + front.len() as u64);
            let rest = len_bytes.saturating_sub(front_len);
            let frame = ContainedFrame::parse(back, rest, edition).map_err(in_back)?;
            let decoded = decode(engine, kind, edition, front, front_len, reference);
            let decoded = decoded.map_err(|error| error.within(Grown::HEAD_BYTES))?;
            let mut out = decoded.into_owned();
            bytes::resize(&mut out, len_bytes)?;
            let rest = out.get_mut(index(front_len)..).unwrap_or_default();
            frame.decode(engine, rest).map_err(in_back)?;
            Ok(Cow::Owned(out))
        }
    }
}
