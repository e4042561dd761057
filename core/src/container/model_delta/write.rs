//! Packs a delta, and the parts of its file around the records.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use super::encode::code;
#[cfg(feature = "mixes")]
use super::mixes::Mixes;
use super::pairs::Pairs;
use super::source::References;
use super::trailer::{RecordInfo, Trailer, TrailerContents, short_digest};
use super::{Base, BaseHeader, table_digest, version};
use crate::bytes::{index, part};
use crate::container::VERSION_OFFSET_BYTES;
use crate::container::safetensors::{self, Header, HeaderTensor};
use crate::engine::PackEngine;
use crate::frame::Edition;
use crate::frame::select::{Effort, EncodeOptions};
use crate::{Error, Result};

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
        self.sealed(base, records, target_digest).to_bytes()
    }

    /// Returns the bytes after the records like [`DeltaPacker::trailer`], of a delta whose
    /// `base` is computed with these `mixes`.
    #[cfg(feature = "mixes")]
    #[must_use]
    pub fn mixed_trailer(
        &self,
        (base, mixes): (&BaseHeader, &Mixes),
        records: Vec<RecordInfo>,
        target_digest: [u8; 32],
    ) -> Vec<u8> {
        let trailer = Trailer {
            mixes: Some(mixes.clone()),
            ..self.sealed(base, records, target_digest)
        };
        trailer.to_bytes()
    }

    fn sealed(
        &self,
        base: &BaseHeader,
        records: Vec<RecordInfo>,
        target_digest: [u8; 32],
    ) -> Trailer {
        let (references, base_table) = match self.is_virtual {
            true => {
                let (references, table) = self.references(base, &records);
                (Some(references), table)
            }
            false => (None, base.table_digest()),
        };
        Trailer {
            base_table,
            target: target_digest,
            contents: Some(TrailerContents {
                header: short_digest([&*self.json]),
                records,
            }),
            references,
            #[cfg(feature = "mixes")]
            mixes: None,
        }
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
