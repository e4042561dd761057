//! The checkpoint a delta is made against.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use core::ops::Range;

use blake2::digest::consts::U8;
use blake2::{Blake2b, Digest};

use crate::bytes::part;
use crate::container::safetensors::{self, LenientTensor, Tensor};
use crate::container::zstn;
use crate::{Error, Result, Rule, sort};

/// The tensors of a base, as its header lists them. The header may break the
/// official rules; only names, dtypes and spans inside the data count.
#[derive(Debug)]
pub struct BaseHeader {
    data: Range<u64>,
    tensors: BTreeMap<String, LenientTensor>,
}

impl BaseHeader {
    /// Reads the header of a safetensors file of `file_len_bytes` from its first
    /// bytes, up to the data at least.
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

    /// Returns the range of the file that holds the tensor called `name`.
    #[must_use]
    pub fn range(&self, name: &str) -> Option<Range<u64>> {
        let span = &self.tensors.get(name)?.span;
        Some(self.data.start + span.start..self.data.start + span.end)
    }

    /// Returns the range of the file that `tensor` of the target may be a copy
    /// of or a difference from: that of the tensor with its name, dtype and
    /// length.
    #[must_use]
    pub fn reference(&self, tensor: &Tensor) -> Option<Range<u64>> {
        let other = self.tensors.get(&tensor.name)?;
        let len = |span: &Range<u64>| span.end - span.start;
        let usable = other.dtype.as_deref() == Some(tensor.dtype.name())
            && len(&other.span) == len(&tensor.span);
        usable.then(|| self.range(&tensor.name)).flatten()
    }

    /// Returns the range of the file that holds the tensor called `name`, which must
    /// be `len_bytes` long.
    ///
    /// # Errors
    /// [`Rule::DeltaBaseTensor`].
    pub fn tensor(&self, name: &str, len_bytes: u64) -> Result<Range<u64>> {
        let range = self.range(name);
        let found = range.as_ref().map(|range| range.end - range.start);
        check_tensor(name, len_bytes, found)?;
        Ok(range.unwrap_or_default())
    }

    /// Returns the [`table_digest`] of this base.
    #[must_use]
    pub fn table_digest(&self) -> [u8; 32] {
        table_digest(
            self.tensors
                .iter()
                .map(|(name, t)| (name.as_str(), &t.span)),
        )
    }
}

/// Refuses files that begin like packed ones.
pub(super) fn refuse_packed(head: &[u8]) -> Result<()> {
    if head.starts_with(&zstn::MAGIC) || head.starts_with(&super::MAGIC) {
        return Err(Error::unsupported(
            "the base is packed itself; unpack it first and name the safetensors file",
        ));
    }
    Ok(())
}

/// BLAKE2b with an output of 8 bytes over the data buffer of a base, which comes
/// in pieces.
#[derive(Debug, Default)]
pub struct DataDigest(Blake2b<U8>);

impl DataDigest {
    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest of all bytes.
    #[must_use]
    pub fn finish(self) -> [u8; 8] {
        self.0.finalize().into()
    }
}

/// A base held as a whole.
#[derive(Debug)]
pub struct Base<'a> {
    file: &'a [u8],
    header: BaseHeader,
}

impl<'a> Base<'a> {
    /// Reads the safetensors file `file`.
    pub fn parse(file: &'a [u8]) -> Result<Self> {
        let header = BaseHeader::parse(file, file.len() as u64)?;
        Ok(Self { file, header })
    }

    /// Returns what the header says.
    #[must_use]
    pub fn header(&self) -> &BaseHeader {
        &self.header
    }

    /// Returns the range of the base's file that holds the tensor called
    /// `name`.
    #[must_use]
    pub fn range(&self, name: &str) -> Option<Range<u64>> {
        self.header.range(name)
    }

    /// Returns the bytes in `range` of the file.
    pub(super) fn part(&self, range: Range<u64>) -> &'a [u8] {
        part(self.file, range)
    }

    /// Returns BLAKE2b with an output of 8 bytes over the data buffer.
    #[must_use]
    pub fn digest(&self) -> [u8; 8] {
        let mut digest = DataDigest::default();
        digest.update(self.part(self.header.data()));
        digest.finish()
    }

    /// Returns the [`table_digest`] of this base.
    #[must_use]
    pub fn table_digest(&self) -> [u8; 32] {
        self.header.table_digest()
    }
}

/// Returns BLAKE3 of what z4ai's digest of a base leaves out: the names of the
/// tensors and their spans. Without it a base with exchanged names would pass.
/// The tensors come in ascending order of their names
/// (docs/formats/zstn-delta.md 2).
pub fn table_digest<'n>(tensors: impl Iterator<Item = (&'n str, &'n Range<u64>)>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for (name, span) in tensors {
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
        hasher.update(&span.start.to_le_bytes());
        hasher.update(&span.end.to_le_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// Refuses a tensor of the base that is missing or not `len_bytes` long.
pub fn check_tensor(name: &str, len_bytes: u64, in_base: Option<u64>) -> Result<()> {
    let detail = match in_base {
        Some(len) if len == len_bytes => return Ok(()),
        Some(len) => format!("has {len} bytes in the base, {len_bytes} here"),
        None => "is missing from the base".into(),
    };
    Err(Error::malformed(Rule::DeltaBaseTensor, detail).tensor(name))
}
