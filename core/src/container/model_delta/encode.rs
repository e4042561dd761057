//! Encodes the record of one tensor.

use alloc::vec::Vec;

use super::pairs::Pair;
use super::payload::Grown;
use super::record::{RecordHead, RecordKind};
use super::trailer::{RecordInfo, ShortDigest, announce, short_digest};
use crate::bytes::part;
use crate::container::safetensors::HeaderTensor;
use crate::engine::PackEngine;
use crate::frame::select::{self, EncodeOptions};
use crate::frame::{Edition, delta, difference};
use crate::{Result, TensorRef};

/// An encoded record and its entry in the trailer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodedRecord {
    /// The head and the payload of the record.
    pub record: Vec<u8>,
    /// The entry for [`DeltaPacker::trailer`](super::DeltaPacker::trailer).
    pub info: RecordInfo,
    /// The edition that the record requires of its file.
    pub edition: Edition,
}

impl CodedRecord {
    /// Adds the range of the base to the entry, if it is not the whole tensor of the
    /// same name. `digest` returns the digest of the base's whole tensor.
    ///
    /// # Errors
    /// The error of `digest`.
    pub fn with_source<E>(
        mut self,
        pair: &Pair,
        digest: impl FnOnce() -> Result<ShortDigest, E>,
    ) -> Result<Self, E> {
        self.info.source = pair.source(self.info.kind, digest)?;
        if self.info.source.is_some() {
            self.edition = Edition::Paired;
        }
        Ok(self)
    }
}

/// Encodes the record of `tensor` as a copy of the paired bytes of the base, as a
/// difference from them, or as a frame, whichever is smallest. The size of a copy or a
/// difference includes its entry in `SRCS`. Of payloads of equal length, a frame is
/// preferred to a difference, and `Z4DL` to `ZXD1`. If the tensor is longer than the
/// paired bytes, only its beginning is copied or stored as a difference. `reference` has
/// the pair of the tensor, and the bytes of the base's whole tensor.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a name that the format
/// cannot store.
pub fn code<E: PackEngine>(
    engine: &E,
    tensor: &HeaderTensor,
    bytes: &[u8],
    reference: Option<(&Pair, &[u8])>,
    options: impl Into<EncodeOptions>,
) -> Result<CodedRecord> {
    let current = TensorRef::new(bytes, tensor.dtype, &tensor.shape);
    let Some((pair, whole)) = reference else {
        return code_content(engine, tensor, current, None, options);
    };
    let of_base = part(whole, pair.span.clone());
    code_content(engine, tensor, current, Some((pair, of_base)), options)?
        .with_source(pair, || Ok(short_digest([whole])))
}

/// Encodes the record of `tensor` like [`code`]. `current` has its bytes, and the
/// structure by which they are encoded. `reference` has the pair of the tensor, and the
/// bytes in [`Pair::range`]. The caller adds the pair to the result
/// ([`CodedRecord::with_source`]).
///
/// # Errors
/// The errors of [`code`].
pub fn code_content<E: PackEngine>(
    engine: &E,
    tensor: &HeaderTensor,
    current: TensorRef,
    reference: Option<(&Pair, &[u8])>,
    options: impl Into<EncodeOptions>,
) -> Result<CodedRecord> {
    let options = options.into();
    let bytes = current.bytes;
    let (kind, mut payload) = match reference {
        Some((_, of_base)) if of_base == bytes => (RecordKind::Copy, Vec::new()),
        reference => {
            let full = (RecordKind::Full, select::encode(engine, current, options));
            match reference {
                None => full,
                Some((pair, of_base)) => {
                    let other = match of_base.len() < bytes.len() {
                        true => grown(engine, current, of_base, options)?,
                        false => from_base(engine, current, of_base, options)?,
                    };
                    smaller(full, other, pair.source_bytes())
                }
            }
        }
    };
    let edition = match kind {
        RecordKind::Full => Edition::of_frame(&payload),
        kind => kind.edition(),
    };
    announce(kind, &mut payload);
    let mut record = record_head(tensor, kind, payload.len() as u64)?;
    record.extend_from_slice(&payload);
    Ok(CodedRecord {
        record,
        info: RecordInfo {
            kind,
            payload_len_bytes: payload.len() as u64,
            digest: short_digest([bytes]),
            source: None,
        },
        edition,
    })
}

/// The kind and the payload of a record.
type Payload = (RecordKind, Vec<u8>);

/// Returns `second` if it is smaller although its entry in `SRCS` takes `source_bytes`.
fn smaller(first: Payload, second: Payload, source_bytes: u64) -> Payload {
    match second.1.len() as u64 + source_bytes < first.1.len() as u64 {
        true => second,
        false => first,
    }
}

/// Returns the smaller one of the differences from `of_base`.
fn from_base<E: PackEngine>(
    engine: &E,
    current: TensorRef,
    of_base: &[u8],
    options: EncodeOptions,
) -> Result<Payload> {
    let delta = delta::encode(engine, current, of_base, options)?;
    let delta = (RecordKind::Delta, delta);
    Ok(match difference(engine, current, of_base, options) {
        Some(payload) => smaller(delta, (RecordKind::Difference, payload), 0),
        None => delta,
    })
}

/// Returns a [`RecordKind::Grown`] payload, whose beginning is decoded from `of_base`.
fn grown<E: PackEngine>(
    engine: &E,
    current: TensorRef,
    of_base: &[u8],
    options: EncodeOptions,
) -> Result<Payload> {
    let (front, back) = current.bytes.split_at(of_base.len());
    let [front_shape, back_shape] =
        divided_shape(current.shape, front.len() as u64, back.len() as u64);
    let (kind, front) = match front == of_base {
        true => (RecordKind::Copy, Vec::new()),
        false => {
            let current = current.with_bytes(front).with_shape(&front_shape);
            from_base(engine, current, of_base, options)?
        }
    };
    let back = current.with_bytes(back).with_shape(&back_shape);
    let back = select::encode(engine, back, options);
    let payload = [Grown::head_to_bytes(kind, front.len() as u64), front, back].concat();
    Ok((RecordKind::Grown, payload))
}

/// Returns the shapes of the first `front` and the last `back` bytes of a tensor, which
/// are whole rows.
#[must_use]
pub fn divided_shape(shape: &[u64], front: u64, back: u64) -> [Vec<u64>; 2] {
    let rows = shape.first().copied().unwrap_or(0);
    let total = (u128::from(front) + u128::from(back)).max(1);
    // The product of two lengths fits in 128 bits, and the quotient is at most `rows`.
    let front_rows = u64::try_from(u128::from(rows) * u128::from(front) / total).unwrap_or(rows);
    [front_rows, rows - front_rows].map(|rows| {
        let mut part = shape.to_vec();
        if let Some(first) = part.first_mut() {
            *first = rows;
        }
        part
    })
}

/// Returns the `ZXD1` difference from `reference`, if the options allow one and
/// the tensor's dtype has one.
fn difference<E: PackEngine>(
    engine: &E,
    current: TensorRef,
    reference: &[u8],
    options: EncodeOptions,
) -> Option<Vec<u8>> {
    options
        .is_extended()
        .then(|| difference::encode(engine, current, reference, options))
        .flatten()
}

/// Returns the head of the record of `tensor`, for callers that encode the
/// payload themselves, in the same way as [`code`].
pub fn record_head(
    tensor: &HeaderTensor,
    kind: RecordKind,
    payload_len_bytes: u64,
) -> Result<Vec<u8>> {
    let head = RecordHead {
        name: tensor.name.clone(),
        span: tensor.span.clone(),
        kind,
        payload_len_bytes,
    };
    head.to_bytes()
}
