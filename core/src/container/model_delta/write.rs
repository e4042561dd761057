//! A checkpoint as its difference from a base
//! (docs/formats/z4ai-containers.md 4.2).

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ops::Range;

use super::announcement::announce;
use super::base::{Base, BaseHeader};
use super::prefix;
use super::record::{Head, Kind};
use super::trailer::{Contents, RecordInfo, Trailer, short_digest};
use super::version;
use crate::bytes::{index, part};
use crate::container::VERSION_OFFSET_BYTES;
use crate::container::safetensors::{self, Header, Tensor};
use crate::engine::PackEngine;
use crate::frame::select::{self, EncodeOptions};
use crate::frame::{Edition, delta, difference};
use crate::{Error, Result, TensorRef};

/// Packs the safetensors file `target` against `base`. A target that breaks the
/// official rules is refused: the format cannot hold bytes that belong to no
/// tensor.
pub fn pack<E: PackEngine>(
    engine: &E,
    target: &[u8],
    base: &Base,
    options: impl Into<EncodeOptions>,
) -> Result<Vec<u8>> {
    let options = options.into();
    let packing = DeltaPacker::new(target, base)?;
    let mut out = packing.prefix(base.digest(&|_| ()))?;
    let mut edition = Edition::Plain;
    let numbers = (0..packing.tensors().len()).collect();
    let mut infos = Vec::new();
    for coded in engine.map(numbers, |number| packing.code(engine, number, options)) {
        let coded = coded?;
        out.extend_from_slice(&coded.record);
        edition = edition.max(coded.edition);
        infos.push(coded.info);
    }
    let target_digest = *blake3::hash(target).as_bytes();
    out.extend_from_slice(&packing.trailer(infos, target_digest));
    out[index(VERSION_OFFSET_BYTES)] = version(edition);
    Ok(out)
}

/// A record to write, and its entry in the trailer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coded {
    /// Head and payload.
    pub record: Vec<u8>,
    /// For [`DeltaPacker::trailer`].
    pub info: RecordInfo,
    /// The edition that a file with this record has to be.
    pub edition: Edition,
}

/// A checkpoint being packed, for callers that write the parts as they come:
/// the prefix, a record for every tensor in order, and the trailer. If the options
/// allow extension frames, the byte at
/// [`VERSION_OFFSET_BYTES`] of the prefix is that of
/// the latest edition of all records ([`version`]). Files that are not in memory are packed by
/// [`IncrementalDeltaPacker`](super::IncrementalDeltaPacker).
#[derive(Debug)]
pub struct DeltaPacker<'a> {
    header: TargetHeader<'a>,
    target: &'a [u8],
    base: &'a Base<'a>,
}

impl<'a> DeltaPacker<'a> {
    /// Reads the header of the safetensors file `target`.
    pub fn new(target: &'a [u8], base: &'a Base<'a>) -> Result<Self> {
        let header_len = safetensors::header_len_bytes(target, target.len() as u64)?;
        let data_start = safetensors::PREFIX_BYTES + header_len;
        let json = part(target, safetensors::PREFIX_BYTES..data_start);
        let header = TargetHeader::parse(json.into(), target.len() as u64)?;
        Ok(Self {
            header,
            target,
            base,
        })
    }

    /// Returns the tensors in the order of their records.
    #[must_use]
    pub fn tensors(&self) -> &[Tensor] {
        &self.header.tensors
    }

    /// Returns the bytes before the records, with the version of a file without
    /// extension frames; the digest is that of [`Base::digest`].
    pub fn prefix(&self, base_digest: [u8; 8]) -> Result<Vec<u8>> {
        self.header.prefix(Edition::Plain, base_digest)
    }

    /// Returns the range of tensor `number` in the target's file.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if there is no such
    /// tensor.
    pub fn range(&self, number: usize) -> Result<Range<u64>> {
        Ok(self.header.range(self.tensor(number)?))
    }

    fn tensor(&self, number: usize) -> Result<&Tensor> {
        let tensor = self.tensors().get(number);
        tensor.ok_or_else(|| Error::no_such("tensor", number, self.tensors().len()))
    }

    /// Returns the record of tensor `number`: the smallest of a copy, the
    /// differences that the options allow, and a frame.
    pub fn code<E: PackEngine>(
        &self,
        engine: &E,
        number: usize,
        options: impl Into<EncodeOptions>,
    ) -> Result<Coded> {
        let bytes = part(self.target, self.range(number)?);
        let reference = self.reference(number).map(|range| self.base.part(range));
        code(
            engine,
            self.tensor(number)?,
            bytes,
            reference,
            options.into(),
        )
    }

    /// Returns the range of the base's file that tensor `number` may be a copy
    /// of or a difference from: that of the tensor with its name, dtype and
    /// length.
    #[must_use]
    pub fn reference(&self, number: usize) -> Option<Range<u64>> {
        self.base.header().reference(self.tensors().get(number)?)
    }

    /// Returns the head of the record of tensor `number`, for callers that make
    /// the payload themselves, by the rules of [`DeltaPacker::code`].
    pub fn head(&self, number: usize, kind: Kind, payload_len_bytes: u64) -> Result<Vec<u8>> {
        record_head(self.tensor(number)?, kind, payload_len_bytes)
    }

    /// Returns the trailer, from the entries of all records and the BLAKE3 of
    /// the target's file.
    #[must_use]
    pub fn trailer(&self, records: Vec<RecordInfo>, target_digest: [u8; 32]) -> Vec<u8> {
        self.header
            .trailer(self.base.header(), records, target_digest)
    }
}

/// The header of a checkpoint that is packed.
#[derive(Debug)]
pub(super) struct TargetHeader<'a> {
    json: Cow<'a, [u8]>,
    data: Range<u64>,
    pub tensors: Vec<Tensor>,
}

impl<'a> TargetHeader<'a> {
    /// Reads the header `json` of a safetensors file of `file_len_bytes`.
    pub fn parse(json: Cow<'a, [u8]>, file_len_bytes: u64) -> Result<Self> {
        let data = safetensors::PREFIX_BYTES + json.len() as u64..file_len_bytes;
        let tensors = Header::parse(&json, data.end - data.start)?.tensors;
        Ok(Self {
            json,
            data,
            tensors,
        })
    }

    /// Returns the bytes of the file before its data.
    pub fn head(&self) -> Vec<u8> {
        let len = (self.json.len() as u64).to_le_bytes();
        [&len, &*self.json].concat()
    }

    /// Returns the range of `tensor` in the file.
    pub fn range(&self, tensor: &Tensor) -> Range<u64> {
        self.data.start + tensor.span.start..self.data.start + tensor.span.end
    }

    /// Returns the bytes of the delta before its records.
    pub fn prefix(&self, edition: Edition, base_digest: [u8; 8]) -> Result<Vec<u8>> {
        let count = u32::try_from(self.tensors.len())
            .map_err(|_| Error::invalid_input("a delta holds at most 2^32 tensors"))?;
        let data_len = self.data.end - self.data.start;
        let json = &self.json;
        Ok(prefix::write(edition, json, data_len, base_digest, count))
    }

    /// Returns the bytes of the delta after its records.
    pub fn trailer(
        &self,
        base: &BaseHeader,
        records: Vec<RecordInfo>,
        target_digest: [u8; 32],
    ) -> Vec<u8> {
        let trailer = Trailer {
            base_table: base.table_digest(),
            target: target_digest,
            contents: Some(Contents {
                header: short_digest([&*self.json]),
                records,
            }),
        };
        trailer.to_bytes()
    }
}

/// Returns the record of `tensor`: the smallest of a copy of `reference`, the
/// differences from it, and a frame. Of equally long ones the frame is taken
/// before a difference, and `Z4DL` before `ZXD1`.
pub(super) fn code<E: PackEngine>(
    engine: &E,
    tensor: &Tensor,
    bytes: &[u8],
    reference: Option<&[u8]>,
    options: EncodeOptions,
) -> Result<Coded> {
    let current = TensorRef::new(bytes, tensor.dtype, &tensor.shape);
    let (kind, mut payload) = if reference == Some(bytes) {
        (Kind::Copy, Vec::new())
    } else {
        let full = select::encode(engine, current, options);
        let mut smallest = (Kind::Full, full);
        let mut consider = |kind, payload: Vec<u8>| {
            if payload.len() < smallest.1.len() {
                smallest = (kind, payload);
            }
        };
        if let Some(reference) = reference {
            let delta = delta::encode(engine, current, reference, options)?;
            consider(Kind::Delta, delta);
            if let Some(payload) = difference(engine, current, reference, options) {
                consider(Kind::Difference, payload);
            }
        }
        smallest
    };
    let edition = match kind {
        Kind::Full => Edition::of_frame(&payload),
        kind => kind.edition(),
    };
    announce(kind, &mut payload);
    let mut record = record_head(tensor, kind, payload.len() as u64)?;
    record.extend_from_slice(&payload);
    Ok(Coded {
        record,
        info: RecordInfo {
            kind,
            payload_len_bytes: payload.len() as u64,
            digest: short_digest([bytes]),
        },
        edition,
    })
}

/// Returns the `ZXD1` difference from `reference`, if the options allow it and
/// the tensor has one.
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

fn record_head(tensor: &Tensor, kind: Kind, payload_len_bytes: u64) -> Result<Vec<u8>> {
    let head = Head {
        name: tensor.name.clone(),
        span: tensor.span.clone(),
        kind,
        payload_len_bytes,
    };
    head.to_bytes()
}
