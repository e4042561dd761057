//! The checkpoint that a delta is made against.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use core::ops::Range;

use blake2::digest::consts::U8;
use blake2::{Blake2b, Digest};

use crate::bytes::part;
use crate::container::safetensors::{self, HeaderTensor, LenientTensor};
use crate::container::zstn;
use crate::{Error, Result, Rule, sort};

/// The tensors of a base, as listed in its header. The header may break the
/// official rules: only names, dtypes and spans inside the data are used.
#[derive(Debug)]
pub struct BaseHeader {
    data: Range<u64>,
    tensors: BTreeMap<String, LenientTensor>,
}

impl BaseHeader {
    /// Reads the header of a safetensors file of `file_len_bytes`. `head`
    /// contains the file at least up to its data.
    pub fn parse(head: &[u8], file_len_bytes: u64) -> Result<Self> {
        refuse_packed(head)?;
        let len = safetensors::header_len_bytes(head, file_len_bytes)?;
        let data = safetensors::PREFIX_BYTES + len..file_len_bytes;
        let header = part(head, safetensors::PREFIX_BYTES..data.start);
        let tensors = safetensors::parse_lenient(header, data.end - data.start)?.into_iter();
        let tensors = sort::map(tensors.map(|tensor| (tensor.name.clone(), tensor)));
        Ok(Self { data, tensors })
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
        let span = &self.tensors.get(name)?.span;
        Some(self.data.start + span.start..self.data.start + span.end)
    }

    /// Returns the range in the file of the tensor that `tensor` of the target
    /// may be copied or decoded from: the one with the same name, dtype and
    /// length.
    #[must_use]
    pub fn reference(&self, tensor: &HeaderTensor) -> Option<Range<u64>> {
        let other = self.tensors.get(&tensor.name)?;
        let len = |span: &Range<u64>| span.end - span.start;
        let usable = other.dtype.as_deref() == Some(tensor.dtype.name())
            && len(&other.span) == len(&tensor.span);
        usable.then(|| self.range(&tensor.name)).flatten()
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
        table_digest(
            self.tensors
                .iter()
                .map(|(name, t)| (name.as_str(), &t.span)),
        )
    }
}

/// Fails if the file begins like a packed one.
pub(super) fn refuse_packed(head: &[u8]) -> Result<()> {
    if head.starts_with(&zstn::MAGIC) || head.starts_with(&super::MAGIC) {
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

/// A base whose whole file is in memory.
#[derive(Debug)]
pub struct Base<'a> {
    file: &'a [u8],
    header: BaseHeader,
}

impl<'a> Base<'a> {
    /// Parses the header of the safetensors file `file`.
    pub fn parse(file: &'a [u8]) -> Result<Self> {
        let header = BaseHeader::parse(file, file.len() as u64)?;
        Ok(Self { file, header })
    }

    /// Returns the parsed header.
    #[must_use]
    pub fn header(&self) -> &BaseHeader {
        &self.header
    }

    /// Returns the range of the tensor called `name` in the base's file, if
    /// there is one.
    #[must_use]
    pub fn range(&self, name: &str) -> Option<Range<u64>> {
        self.header.range(name)
    }

    /// Returns the bytes in `range` of the file.
    pub(super) fn part(&self, range: Range<u64>) -> &'a [u8] {
        part(self.file, range)
    }

    /// Returns the [`DataDigest`] of the base.
    #[must_use]
    pub fn digest(&self) -> [u8; 8] {
        let mut digest = DataDigest::default();
        digest.update(self.part(self.header.data()));
        digest.finish()
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
        None => "is missing from the base".into(),
    };
    Err(Error::malformed(Rule::DeltaBaseTensor, detail).tensor(name))
}
