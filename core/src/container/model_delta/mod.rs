//! `Z4DM`: a checkpoint as its difference from another one
//! (docs/formats/z4ai-containers.md 4), with a seal of ours behind it
//! (docs/formats/zstn-delta.md).
//!
//! ```text
//! head      magic, version, header of the target, data length, digest of the base
//! records   one per tensor: a frame, a Z4DL delta, or a copy of the base's bytes
//! seal      digests of base and target, where the payloads are; ignored by z4ai
//! ```

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use core::ops::Range;

use blake2::digest::consts::U8;
use blake2::{Blake2b, Digest};

use crate::bytes::part;
use crate::container::safetensors::{self, LooseTensor};
use crate::{Error, Result, Rule};

mod read;
mod record;
mod seal;
mod write;

pub use read::ModelDelta;
pub use record::{Content, Record};
pub use write::{pack, write};

/// First bytes of the file.
pub const MAGIC: [u8; 4] = *b"Z4DM";
const VERSION: u8 = 1;

/// The checkpoint a delta is made against. Its header may break the official
/// rules; only names, dtypes and spans inside the data count.
#[derive(Debug)]
pub struct Base<'a> {
    data: &'a [u8],
    tensors: BTreeMap<String, LooseTensor>,
}

impl<'a> Base<'a> {
    /// Reads the safetensors file `file`.
    pub fn parse(file: &'a [u8]) -> Result<Self> {
        let len = safetensors::header_len_bytes(file, file.len() as u64)?;
        let start = safetensors::PREFIX_BYTES + len;
        let header = part(file, safetensors::PREFIX_BYTES..start);
        let data = part(file, start..file.len() as u64);
        let tensors = safetensors::parse_loosely(header, data.len() as u64)?
            .into_iter()
            .map(|tensor| (tensor.name.clone(), tensor))
            .collect();
        Ok(Self { data, tensors })
    }

    fn tensor(&self, name: &str) -> Option<(&LooseTensor, &'a [u8])> {
        let tensor = self.tensors.get(name)?;
        Some((tensor, part(self.data, tensor.span.clone())))
    }

    /// The bytes of the tensor of that name, which must be `len` long.
    fn bytes(&self, name: &str, span: &Range<u64>) -> Result<&'a [u8]> {
        let len = span.end - span.start;
        match self.tensor(name) {
            Some((_, bytes)) if bytes.len() as u64 == len => Ok(bytes),
            Some((_, bytes)) => Err(Error::malformed(
                Rule::DeltaBaseTensor,
                format!("has {} bytes in the base, {len} here", bytes.len()),
            )
            .tensor(name)),
            None => Err(
                Error::malformed(Rule::DeltaBaseTensor, "is missing from the base").tensor(name),
            ),
        }
    }

    /// BLAKE2b with an output of 8 bytes over the data buffer.
    fn digest(&self) -> [u8; 8] {
        Blake2b::<U8>::digest(self.data).into()
    }

    /// BLAKE3 of what the digest above leaves out: which bytes bear which
    /// name. Without it a base with exchanged names would pass.
    fn table_digest(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        for (name, tensor) in &self.tensors {
            hasher.update(&(name.len() as u64).to_le_bytes());
            hasher.update(name.as_bytes());
            hasher.update(&tensor.span.start.to_le_bytes());
            hasher.update(&tensor.span.end.to_le_bytes());
        }
        *hasher.finalize().as_bytes()
    }
}
