//! Encodes the records of a delta one by one, and computes the digests of both
//! files.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use super::pairs::{Pair, Pairs};
use super::record::{RecordHead, RecordKind};
use super::source::Grown;
use super::trailer::{
    RecordInfo, References, ShortDigest, Trailer, TrailerContents, announce, short_digest,
};
use super::{Base, BaseHeader, DataDigest, table_digest, version};
use crate::bytes::{index, part};
use crate::container::VERSION_OFFSET_BYTES;
use crate::container::safetensors::{self, Header, HeaderTensor};
use crate::engine::PackEngine;
use crate::frame::select::{self, Effort, EncodeOptions};
use crate::frame::{Edition, delta, difference};
use crate::{Error, Result, TensorRef};

/// The options for packing a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DeltaOptions {
    /// The options for encoding tensors.
    pub encode: EncodeOptions,
    /// True if the first bytes of the delta are returned at the end, by
    /// [`prefix`](super::IncrementalDeltaPacker::prefix), for callers that can
    /// still prepend them. Most of the base is then read once instead of twice.
    ///
    /// Options that allow extension frames imply it, since the version of the
    /// file is among these bytes and is only known at the end.
    pub prefix_last: bool,
}

impl DeltaOptions {
    /// Creates the options for the given effort.
    #[must_use]
    pub fn new(effort: Effort) -> Self {
        Self {
            encode: EncodeOptions::new(effort),
            prefix_last: false,
        }
    }

    /// Sets whether extension frames are written where they are smaller
    /// (docs/formats/extensions.md). This implies
    /// [`DeltaOptions::prefix_last`].
    #[must_use]
    pub fn extended(mut self, extended: bool) -> Self {
        self.encode = self.encode.extended(extended);
        self
    }

    pub(super) fn is_prefix_last(&self) -> bool {
        self.prefix_last || self.encode.is_extended()
    }

    /// Sets whether the first bytes of the delta are returned at the end.
    #[must_use]
    pub fn prefix_last(mut self, prefix_last: bool) -> Self {
        self.prefix_last = prefix_last;
        self
    }
}

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
    let pairs = packing.pairs(base.header(), options);
    let tensors = packing.tensors().iter().collect();
    let mut infos = Vec::new();
    let coded = engine.map(tensors, |tensor: &HeaderTensor| {
        let bytes = part(target, packing.range(tensor));
        let pair = pairs.get(tensor);
        let reference = pair.map(|pair| (pair, base.part(pair.tensor.clone())));
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

impl CodedRecord {
    /// Adds the place of the bytes of the base to the entry, if the trailer has to name
    /// it. `digest` returns the digest of the base's whole tensor.
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

/// The BLAKE3 of a target's file, computed piece by piece.
#[derive(Debug, Clone, Default)]
pub struct TargetHash(blake3::Hasher);

impl TargetHash {
    /// Adds the next bytes of the file.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest of the bytes added so far.
    #[must_use]
    pub fn finish(&self) -> [u8; 32] {
        self.0.finalize().into()
    }
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
    /// True if the file is the data buffer alone, and the header is virtual.
    is_virtual: bool,
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
            is_virtual: false,
        })
    }

    /// Parses the virtual header `json` of a file of `len_bytes` that is not a safetensors
    /// file (docs/formats/zstn-delta.md 6).
    pub fn of_original(json: Vec<u8>, len_bytes: u64) -> Result<Self> {
        let tensors = Header::parse(&json, len_bytes)?.tensors;
        Ok(Self {
            json,
            data: 0..len_bytes,
            tensors,
            is_virtual: true,
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

    /// Returns the hash of the target's file before its data. The caller adds the data.
    #[must_use]
    pub fn target_hash(&self) -> TargetHash {
        let mut hash = TargetHash::default();
        if !self.is_virtual {
            hash.update(&(self.json.len() as u64).to_le_bytes());
            hash.update(&self.json);
        }
        hash
    }

    /// Chooses the bytes of the base that each tensor is compared with. Only options
    /// that allow extension frames allow other bytes than the tensor of the same name.
    #[must_use]
    pub fn pairs(&self, base: &BaseHeader, options: EncodeOptions) -> Pairs {
        match options.is_extended() && !self.is_virtual {
            true => Pairs::new(&self.tensors, base),
            false => Pairs::by_name(&self.tensors, base),
        }
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
        let (references, base_table) = match self.is_virtual {
            true => {
                let (references, table) = self.references(base, &records);
                (Some(references), table)
            }
            false => (None, base.table_digest()),
        };
        let trailer = Trailer {
            base_table,
            target: target_digest,
            contents: Some(TrailerContents {
                header: short_digest([&*self.json]),
                records,
            }),
            references,
        };
        trailer.to_bytes()
    }

    /// Returns the references of the records, and the digest of their table.
    fn references(&self, base: &BaseHeader, records: &[RecordInfo]) -> (References, [u8; 32]) {
        let referring = self.tensors.iter().zip(records);
        let referring = referring.filter(|(_, info)| info.refers());
        let ranges: Vec<(&str, Range<u64>)> = referring
            .map(|(tensor, _)| {
                let range = base.reference(tensor).unwrap_or_default();
                (tensor.name.as_str(), range)
            })
            .collect();
        let references = References {
            base_len_bytes: base.data().end,
            offsets: ranges.iter().map(|(_, range)| range.start).collect(),
        };
        let table: BTreeMap<&str, Range<u64>> = ranges.into_iter().collect();
        let table = table_digest(table.iter().map(|(name, range)| (*name, range)));
        (references, table)
    }
}

/// Encodes the record of `tensor`: the smallest of a copy of the bytes of the base
/// that it is compared with, a difference from them, and a frame. Of payloads of equal
/// length, a frame is preferred to a difference, and `Z4DL` to `ZXD1`. If these bytes
/// are shorter than the tensor, only its beginning is a copy or a difference. A record
/// whose bytes of the base the trailer has to name is also as long as their entry there.
/// `reference` has the pair of the tensor, and the bytes of the base's whole tensor.
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

/// Returns `second` if it is smaller, including its `source_bytes` in the trailer.
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

/// The longest range of the base, in bytes, that is requested only for the
/// digest.
const DIGESTED_BYTES: u64 = 16 << 20;

/// The ranges of both files that are required next. Either may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// The range to read from the file being packed.
    pub target: Range<u64>,
    /// The range to read from the base.
    pub base: Range<u64>,
}

/// The state of packing between two records.
#[derive(Debug)]
pub struct Records {
    pub target: DeltaPacker,
    pub base: BaseHeader,
    pairs: Pairs,
    options: DeltaOptions,
    /// The trailer entries of the records encoded so far.
    pub infos: Vec<RecordInfo>,
    /// The edition that these records require of the file.
    pub edition: Edition,
    pub target_hash: TargetHash,
    pub base_digest: DataDigest,
    /// The offset in the base's file up to which `base_digest` covers it.
    digested: u64,
    pub prefix: Option<Vec<u8>>,
}

impl Records {
    pub fn new(target: DeltaPacker, base: BaseHeader, options: DeltaOptions) -> Self {
        Self {
            digested: base.data().start,
            pairs: target.pairs(&base, options.encode),
            target_hash: target.target_hash(),
            target,
            base,
            options,
            infos: Vec::new(),
            edition: Edition::Plain,
            base_digest: DataDigest::default(),
            prefix: None,
        }
    }

    pub(crate) fn is_digested(&self) -> bool {
        self.digested == self.base.data().end
    }

    /// Returns the offset up to which the base must be digested before the next
    /// record: the end of the base, or the start of the tensor that the record
    /// is compared with.
    fn digest_goal(&self) -> u64 {
        let end = self.base.data().end;
        match self.target.tensors().get(self.infos.len()) {
            Some(tensor) if self.options.is_prefix_last() => {
                let pair = self.pairs.get(tensor);
                pair.map_or(self.digested, |pair| pair.tensor.start)
            }
            _ => end,
        }
    }

    /// Returns the tensor of the next record, or `None` while the base must be
    /// digested first.
    pub fn current(&self) -> Option<&HeaderTensor> {
        let is_record = self.digest_goal() <= self.digested;
        let tensor = is_record.then(|| self.target.tensors().get(self.infos.len()));
        tensor.flatten()
    }

    /// Returns the ranges that are required next.
    pub fn wanted(&self) -> Needs {
        let Some(tensor) = self.current() else {
            let end = self.digest_goal().min(self.digested + DIGESTED_BYTES);
            return Needs {
                target: 0..0,
                base: self.digested..end,
            };
        };
        Needs {
            target: self.target.range(tensor),
            base: self
                .pairs
                .get(tensor)
                .map_or(0..0, |pair| pair.tensor.clone()),
        }
    }

    /// Takes the bytes of the ranges that [`Records::wanted`] has returned;
    /// `range` is the requested range of the base. Returns the next record, or
    /// no bytes while the base is only digested.
    pub fn next<E: PackEngine>(
        &mut self,
        engine: &E,
        target: &[u8],
        base: &[u8],
        range: &Range<u64>,
    ) -> Result<Vec<u8>> {
        let tensor = self.current().cloned();
        if range.start <= self.digested && self.digested < range.end {
            let new = self.digested - range.start..range.end - range.start;
            self.base_digest.update(part(base, new));
            self.digested = range.end;
        }
        let Some(tensor) = tensor else {
            return Ok(Vec::new());
        };
        self.target_hash.update(target);
        let reference = self.pairs.get(&tensor).map(|pair| (pair, base));
        let coded = code(engine, &tensor, target, reference, self.options.encode)?;
        self.edition = self.edition.max(coded.edition);
        self.infos.push(coded.info);
        Ok(coded.record)
    }

    /// Returns the number of bytes of the base that are read a second time. The
    /// first `known_bytes` of the file are never read again.
    pub(crate) fn repeated_bytes(&self, known_bytes: u64) -> u64 {
        let data = self.base.data();
        let mut digested = match self.options.is_prefix_last() {
            true => data.start,
            false => data.end,
        };
        let tensors = self.target.tensors().iter();
        let pairs = tensors.filter_map(|tensor| self.pairs.get(tensor));
        pairs
            .map(|pair| {
                let Range { start, end } = pair.tensor;
                let again = end.min(digested).saturating_sub(start.max(known_bytes));
                digested = digested.max(end);
                again
            })
            .sum()
    }
}
