//! Packs a checkpoint as a delta against a base
//! (docs/formats/z4ai-containers.md 4.2).

use alloc::vec::Vec;
use core::ops::Range;

use super::base::{Base, BaseHeader};
use super::record::{RecordHead, RecordKind};
use super::trailer::{RecordInfo, Trailer, TrailerContents, announce, short_digest};
use super::version;
use crate::bytes::{index, part};
use crate::container::VERSION_OFFSET_BYTES;
use crate::container::safetensors::{self, Header, HeaderTensor};
use crate::engine::PackEngine;
use crate::frame::select::{self, EncodeOptions};
use crate::frame::{Edition, delta, difference};
use crate::{Error, Result, TensorRef};

/// Packs the safetensors file `target` against `base`.
///
/// # Errors
/// A target that breaks the official rules, since the format cannot store bytes
/// that belong to no tensor.
pub fn pack<E: PackEngine>(
    engine: &E,
    target: &[u8],
    base: &Base,
    options: impl Into<EncodeOptions>,
) -> Result<Vec<u8>> {
    let options = options.into();
    let packing = DeltaPacker::of_file(target)?;
    let mut out = packing.prefix(Edition::Plain, base.digest())?;
    let mut edition = Edition::Plain;
    let tensors = packing.tensors().iter().collect();
    let mut infos = Vec::new();
    let coded = engine.map(tensors, |tensor: &HeaderTensor| {
        let bytes = part(target, packing.range(tensor));
        let reference = base.header().reference(tensor);
        let reference = reference.map(|range| base.part(range));
        code(engine, tensor, bytes, reference, options)
    });
    for coded in coded {
        let coded = coded?;
        out.extend_from_slice(&coded.record);
        edition = edition.max(coded.edition);
        infos.push(coded.info);
    }
    let target_digest = *blake3::hash(target).as_bytes();
    out.extend_from_slice(&packing.trailer(base.header(), infos, target_digest));
    out[index(VERSION_OFFSET_BYTES)] = version(edition);
    Ok(out)
}

/// An encoded record and its entry in the trailer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodedRecord {
    /// The head and the payload of the record.
    pub record: Vec<u8>,
    /// The entry for [`DeltaPacker::trailer`].
    pub info: RecordInfo,
    /// The edition that the record requires of its file.
    pub edition: Edition,
}

/// A checkpoint being packed, for callers that do their own reads and writes.
/// They write the prefix, a record for every tensor in order, and the trailer.
/// If the options allow extension frames, they must then set the byte at
/// [`VERSION_OFFSET_BYTES`] of the file to the [`version`] of the latest
/// edition that the records require.
#[derive(Debug)]
pub struct DeltaPacker {
    json: Vec<u8>,
    data: Range<u64>,
    tensors: Vec<HeaderTensor>,
}

impl DeltaPacker {
    /// Parses the header `json` of a safetensors file of `file_len_bytes`.
    pub fn new(json: Vec<u8>, file_len_bytes: u64) -> Result<Self> {
        let data = safetensors::PREFIX_BYTES + json.len() as u64..file_len_bytes;
        let data_len = data.end.saturating_sub(data.start);
        let tensors = Header::parse(&json, data_len)?.tensors;
        Ok(Self {
            json,
            data,
            tensors,
        })
    }

    /// Parses the header of the safetensors file `target`.
    pub fn of_file(target: &[u8]) -> Result<Self> {
        let header_len = safetensors::header_len_bytes(target, target.len() as u64)?;
        let data_start = safetensors::PREFIX_BYTES + header_len;
        let json = part(target, safetensors::PREFIX_BYTES..data_start);
        Self::new(json.to_vec(), target.len() as u64)
    }

    /// Returns the tensors in the order of their records.
    #[must_use]
    pub fn tensors(&self) -> &[HeaderTensor] {
        &self.tensors
    }

    /// Returns the bytes of the target's file before its data.
    pub(super) fn file_head(&self) -> Vec<u8> {
        let len = (self.json.len() as u64).to_le_bytes();
        [&len, &*self.json].concat()
    }

    /// Returns the range of `tensor` in the target's file.
    #[must_use]
    pub fn range(&self, tensor: &HeaderTensor) -> Range<u64> {
        self.data.start + tensor.span.start..self.data.start + tensor.span.end
    }

    /// Returns the prefix of the delta. `base_digest` is the
    /// [`DataDigest`](super::DataDigest) of the base.
    pub fn prefix(&self, edition: Edition, base_digest: [u8; 8]) -> Result<Vec<u8>> {
        let count = u32::try_from(self.tensors.len())
            .map_err(|_| Error::invalid_input("a delta has at most 2^32 tensors"))?;
        let data_len = self.data.end - self.data.start;
        let json = &self.json;
        Ok(super::write_prefix(
            edition,
            json,
            data_len,
            base_digest,
            count,
        ))
    }

    /// Returns the bytes after the records. `records` contains the entries of
    /// all records, and `target_digest` is the BLAKE3 of the target's file.
    #[must_use]
    pub fn trailer(
        &self,
        base: &BaseHeader,
        records: Vec<RecordInfo>,
        target_digest: [u8; 32],
    ) -> Vec<u8> {
        let trailer = Trailer {
            base_table: base.table_digest(),
            target: target_digest,
            contents: Some(TrailerContents {
                header: short_digest([&*self.json]),
                records,
            }),
        };
        trailer.to_bytes()
    }
}

/// Encodes the record of `tensor`: the smallest of a copy of `reference`, a
/// difference from it, and a frame. Of payloads of equal length, a frame is
/// preferred to a difference, and `Z4DL` to `ZXD1`.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a name that the format
/// cannot store.
pub fn code<E: PackEngine>(
    engine: &E,
    tensor: &HeaderTensor,
    bytes: &[u8],
    reference: Option<&[u8]>,
    options: impl Into<EncodeOptions>,
) -> Result<CodedRecord> {
    let options = options.into();
    let current = TensorRef::new(bytes, tensor.dtype, &tensor.shape);
    let (kind, mut payload) = if reference == Some(bytes) {
        (RecordKind::Copy, Vec::new())
    } else {
        let full = select::encode(engine, current, options);
        let mut smallest = (RecordKind::Full, full);
        let mut consider = |kind, payload: Vec<u8>| {
            if payload.len() < smallest.1.len() {
                smallest = (kind, payload);
            }
        };
        if let Some(reference) = reference {
            let delta = delta::encode(engine, current, reference, options)?;
            consider(RecordKind::Delta, delta);
            if let Some(payload) = difference(engine, current, reference, options) {
                consider(RecordKind::Difference, payload);
            }
        }
        smallest
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
        },
        edition,
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
