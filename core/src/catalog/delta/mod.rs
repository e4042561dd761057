//! The catalog of a delta, whose tensors are stored in the file, taken from the
//! base, or decoded from both.
#![cfg_attr(not(feature = "deltas"), allow(dead_code, unused_imports))]

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::format::{AnyContents, Contents, StoredTensor};
#[cfg(feature = "deltas")]
use super::range_plan::RangePlan;
use super::{FileCatalog, FileKind, FileTensor};
use crate::bytes::{Cursor, part};
use crate::container::model_delta::{
    self, BaseRange, DeltaPrefix, DeltaRecord, Grown, RecordHead, RecordInfo, RecordKind,
    Reference, References, ShortDigest, Trailer, check_tensor, check_uses, is_announced,
    lost_trailer, outside, table_digest,
};
use crate::container::safetensors::Header;
#[cfg(feature = "mixes")]
use crate::container::safetensors::HeaderTensor;
use crate::engine::Engine;
use crate::frame::Edition;
use crate::{Error, Result, Rule};

#[cfg(all(feature = "plan", feature = "deltas"))]
mod device_plan;
#[cfg(feature = "deltas")]
mod opener;
#[cfg(feature = "deltas")]
pub(super) mod rows;

#[cfg(feature = "deltas")]
pub(super) use opener::FormatOpener;

/// How a tensor depends on a tensor of the base.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BaseUse {
    /// The tensor equals the base's tensor, or a part of it.
    Copy,
    /// The stored bytes are a delta against the base's tensor, or a part of it.
    Delta,
}

impl BaseUse {
    /// Returns how a record of this `kind` depends on the base, if it does.
    #[must_use]
    pub fn of(kind: RecordKind) -> Option<Self> {
        match kind {
            RecordKind::Full => None,
            RecordKind::Delta | RecordKind::Difference | RecordKind::Grown => Some(Self::Delta),
            RecordKind::Copy => Some(Self::Copy),
        }
    }

    /// Returns the name of the variant in JSON output and in JavaScript.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Delta => "delta",
        }
    }
}

/// The part of a delta's catalog that other formats do not have.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FormatContents {
    pub edition: Edition,
    base_table: Option<[u8; 32]>,
    /// The record of each tensor. Files without a trailer have no
    /// [`RecordInfo`].
    records: Vec<(DeltaRecord, Option<RecordInfo>)>,
    /// For each record, the digest that the base's file stores for the base's
    /// tensor that it refers to, if any. Empty until a base is attached.
    base_digests: Vec<Option<ShortDigest>>,
    /// The places in the base's file, if the restored file is not safetensors.
    #[serde(skip)]
    references: Option<References>,
    /// How the base is computed from other checkpoints.
    #[cfg(feature = "mixes")]
    #[serde(skip)]
    mixes: Option<model_delta::Mixes>,
}

impl FormatContents {
    /// Returns the range of the first frame in the payload of tensor `number`. If the
    /// record has several frames, the range ends with the last one.
    pub(super) fn frame(&self, number: usize) -> Option<Range<u64>> {
        let (record, _) = self.records.get(number)?;
        let Range { start, end } = record.payload;
        let head = match record.kind {
            RecordKind::Grown => Grown::HEAD_BYTES,
            _ => 0,
        };
        Some(end.min(start + head)..end)
    }

    /// Returns the bytes of the base that a record refers to, if the trailer names
    /// them.
    fn source(&self, number: usize) -> Option<BaseRange> {
        self.records.get(number)?.1?.source
    }

    /// Returns the payload of a record, whose head must agree with the catalog. A payload
    /// that announces a trailer is refused if the file has none.
    fn checked_payload<'a>(&self, stored: StoredTensor<'a, '_>) -> Result<&'a [u8]> {
        let StoredTensor { tensor, bytes, .. } = stored;
        let (record, info) = &self.records[stored.number];
        let payload = match record.kind {
            RecordKind::Copy => bytes,
            _ => payload(tensor, record, self.edition, bytes)?,
        };
        let has_trailer = info.is_some() || self.base_table.is_some();
        if !has_trailer && is_announced(record.kind, payload) {
            return Err(lost_trailer().tensor(&tensor.name));
        }
        Ok(payload)
    }
}

impl Contents for FormatContents {
    /// Decodes a tensor from its whole record. The head of the record must
    /// agree with the catalog.
    fn decode<'a, E: Engine>(
        &self,
        engine: &E,
        stored: StoredTensor<'a, '_>,
    ) -> Result<Cow<'a, [u8]>> {
        let StoredTensor { tensor, base, .. } = stored;
        let (record, info) = &self.records[stored.number];
        let payload = self.checked_payload(stored)?;
        let reference = match (tensor.base, base) {
            (None, _) => None,
            (Some(_), None) => {
                return Err(Error::invalid_input(
                    "the tensor cannot be read without the base of this delta",
                )
                .tensor(&tensor.name));
            }
            (Some(_), Some(base)) => match self.source(stored.number) {
                Some(source) => {
                    let span = source.span(&tensor.name, base.len() as u64)?;
                    Some(part(base, span))
                }
                None => {
                    check_tensor(&tensor.name, tensor.len_bytes(), Some(base.len() as u64))?;
                    Some(base)
                }
            },
        };
        let is_whole = reference.map(<[u8]>::len) == base.map(<[u8]>::len);
        let decode = |digest| {
            let reference = reference.map(|bytes| Reference { bytes, digest });
            let edition = self.edition;
            let bytes = model_delta::decode_payload(engine, record, edition, payload, reference)?;
            if let Some(info) = info {
                info.check_tensor(&tensor.name, &bytes)?;
            }
            Ok(bytes)
        };
        // If the restored tensor matches its own digest, the base's tensor was
        // the right one, so its cached digest is good enough. If anything
        // fails, the digest is computed from the base's bytes.
        let known = match (record.kind, info) {
            (RecordKind::Difference | RecordKind::Grown, Some(_)) if is_whole => {
                self.base_digests.get(stored.number)
            }
            _ => None,
        };
        match known.copied().flatten() {
            Some(digest) => decode(Some(digest)).or_else(|_| decode(None)),
            None => decode(None),
        }
    }

    #[cfg(feature = "deltas")]
    fn table(&self, tensor: &FileTensor, number: usize, fetched: &[u8]) -> Option<Range<u64>> {
        self.head_range(tensor, number, fetched)
    }

    #[cfg(feature = "deltas")]
    fn plan(
        &self,
        tensor: &FileTensor,
        number: usize,
        span: &Range<u64>,
        head: Option<&[u8]>,
    ) -> Result<Option<RangePlan>> {
        self.plan_part(tensor, number, span, head)
    }

    #[cfg(feature = "decode-task")]
    fn project(&self, number: usize) -> Self {
        Self {
            edition: self.edition,
            base_table: None,
            records: [self.records[number].clone()].into(),
            base_digests: self.base_digests.get(number).copied().into_iter().collect(),
            references: None,
            #[cfg(feature = "mixes")]
            mixes: None,
        }
    }
}

fn other_original() -> Error {
    Error::unsupported(
        "the delta restores a file that is not safetensors, which cannot be read here: restore it \
         with `zstn unpack`, and open it",
    )
}

/// Checks the head of a record against the catalog and returns the bytes after
/// it: the payload, or its beginning.
fn payload<'s>(
    tensor: &FileTensor,
    record: &DeltaRecord,
    edition: Edition,
    stored: &'s [u8],
) -> Result<&'s [u8]> {
    let head_len = record.payload.start - tensor.stored.start;
    if (stored.len() as u64) < head_len {
        let detail = "these are not the stored bytes of the tensor";
        return Err(Error::invalid_input(detail).tensor(&tensor.name));
    }
    let mut cursor = Cursor::new(part(stored, 0..head_len));
    let agrees = RecordHead::read(&mut cursor, 0, edition).is_ok_and(|head| {
        (&head.name, &head.span, head.kind) == (&record.name, &record.span, record.kind)
            && head.payload_len_bytes == record.payload.end - record.payload.start
    });
    if !agrees {
        return Err(Error::malformed(
            Rule::DeltaPlaces,
            "the bytes at the offset of this tensor's record belong to another record",
        )
        .at(tensor.stored.start)
        .tensor(&tensor.name));
    }
    Ok(part(stored, head_len..stored.len() as u64))
}

impl FileCatalog {
    #[cfg(feature = "deltas")]
    /// Creates the catalog of a delta. `records` are in the order of the
    /// header's tensors. The tensors of a delta whose target is not a safetensors
    /// file are the entries of its virtual header.
    pub(super) fn delta(
        prefix: &DeltaPrefix,
        header_json: Vec<u8>,
        header: Header,
        records: Vec<(DeltaRecord, Option<RecordInfo>)>,
        trailer: Option<&Trailer>,
        file_len_bytes: u64,
    ) -> Result<Self> {
        let references = trailer.and_then(|trailer| trailer.references.clone());
        #[cfg(feature = "virtual-headers")]
        let original = references
            .as_ref()
            .map(|_| super::virtual_tensors::Original::of_entries(&header_json, &header))
            .transpose()?;
        #[cfg(not(feature = "virtual-headers"))]
        if references.is_some() {
            return Err(other_original());
        }
        let header_json = references.is_none().then_some(header_json);
        let tensors = header
            .tensors
            .into_iter()
            .zip(&records)
            .map(|(tensor, (record, _))| {
                let start = match record.kind {
                    RecordKind::Copy => record.payload.start,
                    kind => record.payload.start - kind.head_bytes(record.name.len() as u64),
                };
                FileTensor {
                    name: tensor.name,
                    dtype: tensor.dtype,
                    shape: tensor.shape,
                    span: tensor.span,
                    stored: start..record.payload.end,
                    base: BaseUse::of(record.kind),
                    alias_of: None,
                }
            })
            .collect();
        let delta = FormatContents {
            edition: prefix.edition,
            base_table: trailer.map(|trailer| trailer.base_table),
            records,
            base_digests: Vec::new(),
            references,
            #[cfg(feature = "mixes")]
            mixes: trailer.and_then(|trailer| trailer.mixes.clone()),
        };
        let catalog = Self::new(
            AnyContents::Delta(delta),
            file_len_bytes,
            prefix.data_len_bytes,
            header_json,
            header.metadata,
            tensors,
        )?;
        #[cfg(feature = "virtual-headers")]
        let catalog = Self {
            original,
            ..catalog
        };
        Ok(catalog)
    }

    /// Returns the catalog of the base's file of `base_len_bytes`, if this is a delta
    /// that restores a file that is not safetensors: its tensors are the bytes that
    /// the records of this delta refer to, with their names and dtypes. Returns `None`
    /// for other files.
    ///
    /// # Errors
    /// [`Rule::DeltaReference`] if the base has another length, and
    /// [`Rule::DeltaBaseTensor`] for a reference outside the base.
    pub fn referenced_base(&self, base_len_bytes: u64) -> Result<Option<Self>> {
        let Some((delta, references)) = self
            .as_delta()
            .and_then(|delta| Some((delta, delta.references.as_ref()?)))
        else {
            return Ok(None);
        };
        let records = delta.records.iter().map(|(record, _)| record);
        let ranges = references.ranges(records, base_len_bytes)?;
        let tensors = ranges.into_iter().filter_map(|(number, range)| {
            let tensor = self.tensors.get(number)?;
            Some(FileTensor {
                span: range.clone(),
                stored: range,
                base: None,
                ..tensor.clone()
            })
        });
        Self::of_data(tensors.collect(), base_len_bytes).map(Some)
    }

    /// Returns the catalog of `len_bytes` of data in which the tensors lie uncompressed.
    /// There is no header.
    pub(crate) fn of_data(tensors: Vec<FileTensor>, len_bytes: u64) -> Result<Self> {
        Self::new(
            AnyContents::Safetensors(super::safetensors::FormatContents),
            len_bytes,
            len_bytes,
            None,
            BTreeMap::new(),
            tensors,
        )
    }

    /// Returns how the base of this delta is computed from other checkpoints, if it is.
    #[cfg(feature = "mixes")]
    #[must_use]
    pub fn mixes(&self) -> Option<&model_delta::Mixes> {
        self.as_delta()?.mixes.as_ref()
    }

    /// Returns the file of the base of this delta that is computed from `sources`; `None`
    /// if this is not a delta.
    ///
    /// # Errors
    /// The errors of [`Mixes::base`](model_delta::Mixes::base);
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for a delta whose base is a checkpoint
    /// itself, so that it cannot be read together with one whose base is computed.
    #[cfg(feature = "mixes")]
    pub fn mixed_base(
        &self,
        sources: &[model_delta::BaseHeader],
    ) -> Result<Option<model_delta::MixedBase>> {
        let mixes = match self.mixes() {
            Some(mixes) => mixes,
            None if !self.needs_base() => return Ok(None),
            None => {
                return Err(Error::unsupported(
                    "only some files of this model have a base that is computed from other \
                     checkpoints: restore the model with `zstn unpack`, or read its files one by \
                     one",
                ));
            }
        };
        let tensors = self.tensors.iter().map(|tensor| HeaderTensor {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
            span: tensor.span.clone(),
        });
        let tensors: Vec<HeaderTensor> = tensors.collect();
        mixes.base(&tensors, sources).map(Some)
    }

    fn as_delta(&self) -> Option<&FormatContents> {
        match &self.contents {
            #[cfg(feature = "deltas")]
            AnyContents::Delta(delta) => Some(delta),
            _ => None,
        }
    }

    /// Returns the tensor of `base` that each tensor depends on, if `base` has it.
    pub(crate) fn in_base<'b>(&self, base: &'b Self) -> Vec<Option<&'b FileTensor>> {
        let numbers: Vec<usize> = base.by_name.values().copied().collect();
        let tensors = self.tensors.iter().enumerate();
        let in_base = tensors.map(|(number, tensor)| {
            tensor.base?;
            let found = match self.as_delta()?.source(number) {
                Some(source) => numbers.get(source.number as usize),
                None => base.by_name.get(&tensor.name),
            };
            base.tensors.get(*found?)
        });
        in_base.collect()
    }

    /// Stores the digests that the base's file has for the tensors that the tensors
    /// of this delta depend on, in the order of its tensors. The base must have
    /// passed [`FileCatalog::check_base`]. Decoding a difference then uses the stored
    /// digest of the base's tensor instead of computing it, as long as the digest of
    /// the restored tensor matches.
    pub(crate) fn keep_base_digests(&mut self, digests: Vec<Option<ShortDigest>>) {
        match &mut self.contents {
            #[cfg(feature = "deltas")]
            AnyContents::Delta(delta) => delta.base_digests = digests,
            _ => drop(digests),
        }
    }

    /// Returns whether the file is a delta, which can only be opened together
    /// with a base.
    #[must_use]
    pub fn needs_base(&self) -> bool {
        self.as_delta().is_some()
    }

    /// Returns whether every tensor of this delta has a digest; files written
    /// by z4ai have none. Always true for files of other formats.
    #[must_use]
    pub fn has_tensor_digests(&self) -> bool {
        let records = self.as_delta().into_iter().flat_map(|delta| &delta.records);
        records.into_iter().all(|(_, info)| info.is_some())
    }

    /// Returns the digest of tensor `number` in the trailer of a delta.
    pub(super) fn record_digest(&self, number: usize) -> Option<ShortDigest> {
        let (_, info) = self.as_delta()?.records.get(number)?;
        info.as_ref().map(|info| info.digest)
    }

    /// Checks that `base` is the checkpoint that this delta was made against,
    /// as far as possible without reading the base's data: the names and
    /// offsets of its tensors, if the delta has a trailer with their digest,
    /// and the length and dtype of every required tensor
    /// (docs/formats/zstn-delta.md 4). A base tensor with other bytes is
    /// detected when it is read.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if this file is not a
    /// delta, [`Rule::DeltaBaseTensor`] and [`Rule::DeltaReference`] for
    /// another base.
    pub fn check_base(&self, base: &Self) -> Result<()> {
        let Some(delta) = self.as_delta() else {
            return Err(Error::invalid_input(
                "the file is not a delta, so it takes no base",
            ));
        };
        // The base of such a delta is a list of bytes without a header.
        let is_list = base.kind() == FileKind::Safetensors && base.original_header.is_none();
        if delta.references.is_some() && !is_list {
            return Err(other_original());
        }
        let in_base = self.in_base(base);
        let mut lens_of_sources = Vec::new();
        for (number, (tensor, &found)) in self.tensors.iter().zip(&in_base).enumerate() {
            if tensor.base.is_none() {
                continue;
            }
            let len = found.map(FileTensor::len_bytes);
            match delta.source(number) {
                Some(source) => {
                    let len = len.ok_or_else(|| outside(&tensor.name))?;
                    source.span(&tensor.name, len)?;
                    lens_of_sources.push(len);
                }
                None => check_tensor(&tensor.name, tensor.len_bytes(), len)?,
            }
            if let Some(found) = found.filter(|found| found.dtype != tensor.dtype) {
                return Err(Error::malformed(
                    Rule::DeltaBaseTensor,
                    format!("is {} in the base, {} here", found.dtype, tensor.dtype),
                )
                .tensor(&tensor.name));
            }
        }
        let names = base.by_name.iter();
        let table = table_digest(names.map(|(name, &n)| (name.as_str(), &base.tensors[n].span)));
        if delta.base_table.is_some_and(|expected| expected != table) {
            return Err(Error::malformed(
                Rule::DeltaReference,
                "the base is not the checkpoint this delta was made against: its tensors have \
                 other names or offsets",
            ));
        }
        check_uses(lens_of_sources.into_iter(), base.data_len_bytes)
    }
}
