//! `Z4DM`: a checkpoint stored as a delta against another one
//! (docs/formats/z4ai-containers.md 4), followed by zstn's own trailer
//! (docs/formats/zstn-delta.md). Version 2 adds a kind of record
//! (docs/formats/extensions.md 3); in version 3, records may refer to other
//! bytes of the base than the tensor of their name (zstn-delta.md 7).
//!
//! ```text
//! prefix    magic, version, header of the target, data length, digest of the base
//! records   one per tensor: a frame, a difference, or a copy of the base's bytes
//! trailer   digests and the lengths of the payloads; ignored by z4ai
//! ```

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use blake2::digest::consts::U8;
use blake2::{Blake2b, Digest};

use crate::bytes::{Cursor, part};
use crate::container::safetensors::{self, HeaderTensor, LenientTensor};
use crate::container::zstn;
#[cfg(feature = "mixes")]
use crate::float::FloatType;
use crate::frame::Edition;
use crate::{Error, Result, Rule, sort};

mod encode;
mod in_memory;
mod incremental;
#[cfg(feature = "mixes")]
mod mixes;
pub(crate) mod pairing;
mod pairs;
mod payload;
mod read;
mod record;
mod source;
mod trailer;
mod write;

pub use encode::{CodedRecord, code, code_content, divided_shape, record_head};
pub use in_memory::{Base, ModelDelta};
pub use incremental::{IncrementalDeltaPacker, Needs, PackedRecord};
#[cfg(feature = "mixes")]
pub(crate) use mixes::ConvertedShare;
#[cfg(feature = "mixes")]
pub use mixes::{Counterpart, MixedBase, MixedTensor, Mixes, SourceTensor, needs_conversion};
use pairing::{OfBase, OfTarget, Pairing};
pub use pairs::{Pair, Pairs};
pub(crate) use payload::decode_payload;
pub use payload::{Grown, Reference};
pub use read::{DeltaTable, RestoredCheck};
pub use record::{DeltaRecord, RecordHead, RecordKind, max_head_bytes};
pub use source::{BaseRange, References};
pub(crate) use source::{check_uses, outside};
#[cfg(feature = "mixes")]
pub use trailer::source_count;
pub use trailer::{
    RecordInfo, ShortDigest, TRAILER_END_BYTES, Trailer, TrailerContents, announce,
    fields_len_bytes, not_a_trailer, shortened, usual_bytes,
};
pub(crate) use trailer::{is_announced, lost_trailer, short_digest};
pub use write::{DeltaOptions, DeltaPacker, TargetHash, pack};

/// The first bytes of the file.
pub const MAGIC: [u8; 4] = *b"Z4DM";
/// The version number of each edition.
const VERSIONS: &[u8] = &[1, 2, 3];

/// Returns the version of a file of this `edition`.
#[must_use]
pub fn version(edition: Edition) -> u8 {
    edition.number(VERSIONS)
}

/// The number of bytes before the header.
const HEADER_START: u64 = 13;
/// The number of bytes after the header: data length, digest of the base and
/// record count.
const AFTER_HEADER_BYTES: u64 = 20;

/// The fields before the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeltaPrefix {
    /// The edition, which determines the kinds of records allowed.
    pub edition: Edition,
    /// The range of the target's header in the file.
    pub header: Range<u64>,
    /// The length of the target's data buffer in bytes.
    pub data_len_bytes: u64,
    /// The digest of the base's data: BLAKE2b with an output of 8 bytes.
    pub base_digest: [u8; 8],
    /// The number of records.
    pub record_count: u32,
}

impl DeltaPrefix {
    /// Returns the length of the prefix, given the first bytes of a file of
    /// `file_len_bytes`.
    pub fn len_bytes(head: &[u8], file_len_bytes: u64) -> Result<u64> {
        let (_, mut cursor) = Self::start(head)?;
        let header_len = cursor.u64("header length")?;
        header_len
            .checked_add(HEADER_START + AFTER_HEADER_BYTES)
            .filter(|&end| end <= file_len_bytes)
            .ok_or_else(|| {
                Error::malformed(
                    Rule::Truncated,
                    format!(
                        "a header of {header_len} bytes reaches past the end of the file; it \
                         looks cut off"
                    ),
                )
                .at(5)
            })
    }

    /// Returns the edition, given the first bytes of a file.
    #[cfg(feature = "deltas")]
    pub(crate) fn edition(head: &[u8]) -> Result<Edition> {
        Self::start(head).map(|(edition, _)| edition)
    }

    /// Returns the edition, and the cursor after the version.
    fn start(head: &[u8]) -> Result<(Edition, Cursor<'_>)> {
        let mut cursor = Cursor::new(head);
        cursor.expect_magic(&MAGIC, Rule::DeltaMagic, "Z4DM delta")?;
        let edition = Edition::read(&mut cursor, VERSIONS, Rule::DeltaVersion, "Z4DM delta")?;
        Ok((edition, cursor))
    }

    /// Parses the prefix from the first bytes of a file, at least
    /// [`DeltaPrefix::len_bytes`] of them.
    pub fn parse(head: &[u8], file_len_bytes: u64) -> Result<Self> {
        let end = Self::len_bytes(head, file_len_bytes)?;
        let header = HEADER_START..end - AFTER_HEADER_BYTES;
        let (edition, mut cursor) = Self::start(head)?;
        cursor.take(
            header.end - cursor.position() as u64,
            "header of the target",
        )?;
        let data_len_bytes = cursor.u64("data length")?;
        Ok(Self {
            edition,
            header,
            data_len_bytes,
            base_digest: cursor.array("digest of the base")?,
            record_count: cursor.u32("record count")?,
        })
    }

    /// Returns the version of the file.
    #[must_use]
    pub fn version(&self) -> u8 {
        self.edition.number(VERSIONS)
    }

    /// Returns the offset of the first record.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.header.end + AFTER_HEADER_BYTES
    }

    /// Returns the length of the restored file in bytes.
    #[must_use]
    pub fn original_len_bytes(&self) -> u64 {
        (8 + self.header.end - self.header.start).saturating_add(self.data_len_bytes)
    }
}

/// Returns the prefix of a new file.
#[must_use]
fn write_prefix(
    edition: Edition,
    header: &[u8],
    data_len_bytes: u64,
    base_digest: [u8; 8],
    record_count: u32,
) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.push(edition.number(VERSIONS));
    out.extend_from_slice(&(header.len() as u64).to_le_bytes());
    out.extend_from_slice(header);
    out.extend_from_slice(&data_len_bytes.to_le_bytes());
    out.extend_from_slice(&base_digest);
    out.extend_from_slice(&record_count.to_le_bytes());
    out
}

/// The tensors of a base, as listed in its header. The header may break the
/// official rules: only names, dtypes and spans inside the data are used.
#[derive(Debug)]
pub struct BaseHeader {
    data: Range<u64>,
    /// In ascending order of the names.
    tensors: Vec<LenientTensor>,
}

impl BaseHeader {
    /// Reads the header of a safetensors file of `file_len_bytes`. `head`
    /// contains the file at least up to its data.
    pub fn parse(head: &[u8], file_len_bytes: u64) -> Result<Self> {
        refuse_packed(head)?;
        let len = safetensors::header_len_bytes(head, file_len_bytes)?;
        let data = safetensors::PREFIX_BYTES + len..file_len_bytes;
        let header = part(head, safetensors::PREFIX_BYTES..data.start);
        let tensors = safetensors::parse_lenient(header, data.end - data.start)?;
        Ok(Self::new(data, tensors))
    }

    /// Creates the base of a file that is not safetensors (docs/formats/zstn-delta.md 6).
    /// The base's file has `len_bytes`, and each of the `found` tensors of the target is
    /// compared with a range of it.
    pub fn of_counterparts<'t>(
        found: impl Iterator<Item = (&'t HeaderTensor, Range<u64>)>,
        len_bytes: u64,
    ) -> Self {
        let tensors = found.map(|(tensor, span)| LenientTensor {
            name: tensor.name.clone(),
            dtype: Some(tensor.dtype.name().into()),
            span,
        });
        Self::new(0..len_bytes, tensors.collect())
    }

    /// Of tensors with the same name, the last one counts.
    fn new(data: Range<u64>, tensors: Vec<LenientTensor>) -> Self {
        let named = tensors.into_iter().map(|t| (t.name.clone(), t));
        Self {
            data,
            tensors: sort::map(named).into_values().collect(),
        }
    }

    /// Creates the header of a base of `len_bytes` that has bytes for these names in
    /// these ranges of its file.
    fn of_ranges(ranges: impl Iterator<Item = (String, Range<u64>)>, len_bytes: u64) -> Self {
        let tensors = ranges.map(|(name, span)| LenientTensor {
            name,
            dtype: None,
            span,
        });
        Self::new(0..len_bytes, tensors.collect())
    }

    /// Returns the range of the data buffer in the file.
    #[must_use]
    pub fn data(&self) -> Range<u64> {
        self.data.clone()
    }

    /// Returns the range of the tensor called `name` in the file, if there is
    /// one.
    #[must_use]
    pub fn range(&self, name: &str) -> Option<Range<u64>> {
        self.range_of(self.number(name)?)
    }

    /// Returns the number of the tensor called `name` in ascending order of the
    /// names.
    pub(crate) fn number(&self, name: &str) -> Option<usize> {
        let found = self.tensors.binary_search_by(|t| t.name.as_str().cmp(name));
        found.ok()
    }

    /// Returns the range in the file of the tensor with this number.
    fn range_of(&self, number: usize) -> Option<Range<u64>> {
        let span = &self.tensors.get(number)?.span;
        Some(self.data.start + span.start..self.data.start + span.end)
    }

    /// Returns the range in the file of a source of the record called `name`.
    ///
    /// # Errors
    /// [`Rule::DeltaBaseTensor`] if the base does not have these bytes.
    pub(crate) fn source(&self, name: &str, source: &BaseRange) -> Result<Range<u64>> {
        let range = self.range_of(source.number as usize);
        let range = range.ok_or_else(|| outside(name))?;
        let span = source.span(name, range.end - range.start)?;
        Ok(range.start + span.start..range.start + span.end)
    }

    /// Returns the range in the file of the tensor that `tensor` of the target
    /// may be copied or decoded from: the one with the same name, dtype and
    /// length.
    #[must_use]
    pub fn reference(&self, tensor: &HeaderTensor) -> Option<Range<u64>> {
        self.reference_to(self.number(&tensor.name)?, tensor)
    }

    /// Returns the range in the file of the tensor with this number, if it has the dtype
    /// and the length of `tensor`.
    fn reference_to(&self, number: usize, tensor: &HeaderTensor) -> Option<Range<u64>> {
        let usable = self.len_of(number, tensor) == Some(tensor.span.end - tensor.span.start);
        usable.then(|| self.range_of(number)).flatten()
    }

    /// Returns the range in the file of the tensor with this number, and the type of its
    /// elements. Returns `None` if `tensor` has a different number of elements, or a dtype
    /// that these cannot be converted to.
    #[cfg(feature = "mixes")]
    fn elements_of(
        &self,
        number: usize,
        tensor: &HeaderTensor,
    ) -> Option<(Range<u64>, Option<FloatType>)> {
        let float = FloatType::from_dtype(tensor.dtype);
        if let Some(range) = self.reference_to(number, tensor) {
            return Some((range, float));
        }
        let own = FloatType::from_name(self.tensors.get(number)?.dtype.as_deref()?)?;
        let range = self.range_of(number)?;
        let [len_bytes, own_bytes] = [&tensor.span, &range].map(|range| range.end - range.start);
        let [width, own_width] = [float?, own].map(|float| float.len_bytes() as u64);
        let is_same =
            own_bytes.is_multiple_of(own_width) && own_bytes / own_width == len_bytes / width;
        is_same.then_some((range, Some(own)))
    }

    /// Returns the tensors of this base and of a target, to find counterparts.
    fn pairing<'a>(&'a self, target: &'a [HeaderTensor]) -> Pairing<'a> {
        Pairing::new(
            target.iter().map(OfTarget::from),
            self.tensors.iter().map(|tensor| OfBase {
                name: &tensor.name,
                dtype: tensor.dtype.as_deref(),
                len_bytes: tensor.span.end - tensor.span.start,
            }),
        )
    }

    /// Returns the length in bytes of the tensor with this number, if it has the
    /// dtype of `tensor`.
    fn len_of(&self, number: usize, tensor: &HeaderTensor) -> Option<u64> {
        let other = self.tensors.get(number)?;
        let is_same = other.dtype.as_deref() == Some(tensor.dtype.name());
        is_same.then_some(other.span.end - other.span.start)
    }

    /// Returns the range of the tensor called `name` in the file.
    ///
    /// # Errors
    /// [`Rule::DeltaBaseTensor`] if there is no such tensor or it is not
    /// `len_bytes` long.
    pub fn tensor(&self, name: &str, len_bytes: u64) -> Result<Range<u64>> {
        let range = self.range(name);
        let found = range.as_ref().map(|range| range.end - range.start);
        check_tensor(name, len_bytes, found)?;
        Ok(range.unwrap_or_default())
    }

    /// Returns the [`table_digest`] of this base.
    pub(crate) fn table_digest(&self) -> [u8; 32] {
        table_digest(self.tensors.iter().map(|t| (t.name.as_str(), &t.span)))
    }
}

/// Fails if the file begins like a packed one.
fn refuse_packed(head: &[u8]) -> Result<()> {
    if head.starts_with(&zstn::MAGIC) || head.starts_with(&MAGIC) {
        return Err(Error::unsupported(
            "the base is packed itself; unpack it first and name the safetensors file",
        ));
    }
    Ok(())
}

/// The digest of a base's data buffer that z4ai's format prescribes: BLAKE2b
/// with an output of 8 bytes, computed piece by piece.
#[derive(Debug, Default)]
pub struct DataDigest(Blake2b<U8>);

impl DataDigest {
    /// Adds the next bytes of the data buffer.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest of the bytes added so far.
    #[must_use]
    pub fn finish(self) -> [u8; 8] {
        self.0.finalize().into()
    }
}

/// Returns the BLAKE3 of the tensors' names and spans, which z4ai's digest of a
/// base does not cover: without it, a base with exchanged names would be
/// accepted. `tensors` must be in ascending order of the names
/// (docs/formats/zstn-delta.md 2).
pub(crate) fn table_digest<'n>(
    tensors: impl Iterator<Item = (&'n str, &'n Range<u64>)>,
) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for (name, span) in tensors {
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
        hasher.update(&span.start.to_le_bytes());
        hasher.update(&span.end.to_le_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// Fails if the tensor is missing from the base or is not `len_bytes` long
/// there.
pub(crate) fn check_tensor(name: &str, len_bytes: u64, in_base: Option<u64>) -> Result<()> {
    let detail = match in_base {
        Some(len) if len == len_bytes => return Ok(()),
        Some(len) => format!("has {len} bytes in the base, {len_bytes} here"),
        None => "the base has no such tensor".into(),
    };
    Err(Error::malformed(Rule::DeltaBaseTensor, detail).tensor(name))
}
