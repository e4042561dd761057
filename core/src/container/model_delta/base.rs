//! The checkpoint a delta is made against.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use core::ops::Range;

use blake2::digest::consts::U8;
use blake2::{Blake2b, Digest};

use crate::bytes::part;
use crate::container::safetensors::{self, LenientTensor};
use crate::container::zstn;
use crate::{Error, Result, Rule, sort};

/// A base held as a whole. Its header may break the official rules; only
/// names, dtypes and spans inside the data count.
#[derive(Debug)]
pub struct Base<'a> {
    file: &'a [u8],
    data_start: u64,
    tensors: BTreeMap<String, LenientTensor>,
}

impl<'a> Base<'a> {
    /// Reads the safetensors file `file`.
    pub fn parse(file: &'a [u8]) -> Result<Self> {
        if file.starts_with(&zstn::MAGIC) || file.starts_with(&super::MAGIC) {
            return Err(Error::unsupported(
                "the base is packed itself; unpack it first and name the safetensors file",
            ));
        }
        let len = safetensors::header_len_bytes(file, file.len() as u64)?;
        let data_start = safetensors::PREFIX_BYTES + len;
        let header = part(file, safetensors::PREFIX_BYTES..data_start);
        let data_len_bytes = file.len() as u64 - data_start;
        let tensors = safetensors::parse_lenient(header, data_len_bytes)?.into_iter();
        let tensors = sort::map(tensors.map(|tensor| (tensor.name.clone(), tensor)));
        Ok(Self {
            file,
            data_start,
            tensors,
        })
    }

    pub(super) fn tensor(&self, name: &str) -> Option<(&LenientTensor, &'a [u8])> {
        let tensor = self.tensors.get(name)?;
        Some((tensor, part(self.file, self.range(name)?)))
    }

    /// Returns the range of the base's file that holds the tensor called
    /// `name`.
    #[must_use]
    pub fn range(&self, name: &str) -> Option<Range<u64>> {
        let span = &self.tensors.get(name)?.span;
        Some(self.data_start + span.start..self.data_start + span.end)
    }

    /// Returns the bytes of the tensor called `name`, which must be `len_bytes`
    /// long.
    pub(super) fn bytes(&self, name: &str, len_bytes: u64) -> Result<&'a [u8]> {
        let found = self.tensor(name).map(|(_, bytes)| bytes);
        check_tensor(name, len_bytes, found.map(|bytes| bytes.len() as u64))?;
        Ok(found.unwrap_or_default())
    }

    /// Returns BLAKE2b with an output of 8 bytes over the data buffer. `done`
    /// is called with the ranges of the file that have been read.
    pub fn digest(&self, done: &dyn Fn(Range<u64>)) -> [u8; 8] {
        const PIECE_BYTES: u64 = 16 << 20;
        let end = self.file.len() as u64;
        let mut hasher = Blake2b::<U8>::new();
        let mut start = self.data_start;
        while start < end {
            let piece = start..end.min(start + PIECE_BYTES);
            hasher.update(part(self.file, piece.clone()));
            start = piece.end;
            done(piece);
        }
        hasher.finalize().into()
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
