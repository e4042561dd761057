//! A uniform view of all container formats: the tensors in a file, where their
//! bytes are, and how to decode them. This module does no I/O; the caller
//! supplies the byte ranges that [`FileOpener`] requests.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::container::model_delta::ShortDigest;
use crate::container::safetensors::PREFIX_BYTES;
use crate::engine::Engine;
use crate::limits::DIMENSIONS;
use crate::{Error, Result, sort};

mod buffer;
mod delta;
#[cfg(feature = "deltas")]
mod delta_opener;
mod extension;
mod fetched;
mod file_name;
mod file_opener;
mod format;
#[cfg(feature = "gauss")]
mod gauss;
#[cfg(feature = "other-formats")]
mod other_format;
mod range_plan;
mod refused;
mod rows;
mod safetensors;
#[cfg(feature = "decode-task")]
mod subset;
mod tensor;
#[cfg(feature = "deltas")]
mod walk;
mod zstn;
#[cfg(feature = "ztensor")]
mod ztensor;

pub(crate) use buffer::copy;
pub use delta::BaseUse;
pub use extension::Extension;
pub use file_name::{IndexName, kind_of_name, renamed};
pub use file_opener::{FileOpener, is_left_out, recognise};
pub use format::Kind;
use format::{AnyContents, StoredTensor};
pub use range_plan::RangePlan;
pub(crate) use refused::{Refusals, Refused};
pub(crate) use rows::check_inside;
pub use tensor::FileTensor;

/// The tensors of one file and how to decode them. Made by [`FileOpener`] from
/// the file's head, header and index.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FileCatalog {
    contents: AnyContents,
    #[serde(skip)]
    len_bytes: u64,
    #[serde(skip)]
    data_len_bytes: u64,
    #[serde(skip)]
    original_header: Option<Vec<u8>>,
    #[serde(skip)]
    metadata: BTreeMap<String, String>,
    tensors: Vec<FileTensor>,
    #[serde(skip)]
    by_name: BTreeMap<String, usize>,
    /// The tensors of the file that cannot be read, with the reason for each.
    #[serde(skip)]
    refused: Refused,
}

impl FileCatalog {
    fn new(
        contents: AnyContents,
        len_bytes: u64,
        data_len_bytes: u64,
        original_header: Option<Vec<u8>>,
        metadata: BTreeMap<String, String>,
        tensors: Vec<FileTensor>,
    ) -> Result<Self> {
        if let Some(tensor) = tensors.iter().find(|t| t.shape.len() > DIMENSIONS) {
            return Err(Error::dimensions().tensor(&tensor.name));
        }
        let names = tensors.iter().map(|tensor| tensor.name.clone());
        let by_name = sort::map(names.zip(0..));
        Ok(Self {
            contents,
            len_bytes,
            data_len_bytes,
            original_header,
            metadata,
            tensors,
            by_name,
            refused: Refused::default(),
        })
    }

    /// Returns the tensors of the file that cannot be read, with the reason for
    /// each: the tensors of a plain safetensors file whose dtype this version
    /// does not know.
    pub(crate) fn refused(&self) -> &Refused {
        &self.refused
    }

    /// Returns the format of the file.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.contents.kind()
    }

    /// Returns the length of the file in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns the length of the safetensors file that this file is or was
    /// packed from; for a zTensor or Gauss file, the total length of its
    /// decoded tensors.
    #[must_use]
    pub fn original_len_bytes(&self) -> u64 {
        let head_len_bytes = match &self.original_header {
            Some(header) => PREFIX_BYTES + header.len() as u64,
            None => 0,
        };
        head_len_bytes.saturating_add(self.data_len_bytes)
    }

    /// Returns the JSON header of the safetensors file that this file is or was
    /// packed from, byte for byte, including padding. That safetensors file
    /// consists of the length of this header, the header, and the tensors at
    /// their [`FileTensor::span`].
    ///
    /// Returns `None` for zTensor and Gauss files, which do not store such a
    /// header.
    #[must_use]
    pub fn original_header(&self) -> Option<&[u8]> {
        self.original_header.as_deref()
    }

    /// Returns the entries of `__metadata__` in the header; for a zTensor file,
    /// the attributes that are strings.
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// Returns all tensors in the order of the file's index.
    #[must_use]
    pub fn tensors(&self) -> &[FileTensor] {
        &self.tensors
    }

    /// Returns the short digest that the file stores for tensor `number`. ZSTN
    /// files with an integrity section and deltas with a trailer store digests.
    #[must_use]
    pub fn tensor_digest(&self, number: usize) -> Option<ShortDigest> {
        let stored = || self.integrity()?.tensor_digest(number)?.first_chunk();
        stored().copied().or_else(|| self.record_digest(number))
    }

    /// Returns the number of the tensor called `name`.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) if the file has no such tensor.
    pub fn find(&self, name: &str) -> Result<usize> {
        self.by_name
            .get(name)
            .copied()
            .ok_or_else(|| Error::not_found(name))
    }

    /// Decodes tensor `number` from its `stored` bytes. If the file has
    /// checksums, the stored and the decoded bytes are compared with them.
    pub fn decode<'a, E: Engine>(
        &self,
        engine: &E,
        number: usize,
        stored: &'a [u8],
    ) -> Result<Cow<'a, [u8]>> {
        self.decode_against(engine, number, stored, None)
    }

    /// Decodes a tensor like [`FileCatalog::decode`], with `base`, the bytes of
    /// the base's tensor of the same name. A tensor with [`FileTensor::base`]
    /// requires them.
    pub fn decode_against<'a, E: Engine>(
        &self,
        engine: &E,
        number: usize,
        stored: &'a [u8],
        base: Option<&'a [u8]>,
    ) -> Result<Cow<'a, [u8]>> {
        let stored = self.stored(number, stored, base)?;
        self.contents.decode(engine, stored)
    }

    /// Returns tensor `number`.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the number is out of
    /// bounds.
    pub fn tensor(&self, number: usize) -> Result<&FileTensor> {
        let tensor = self.tensors.get(number);
        tensor.ok_or_else(|| Error::no_such("tensor", number, self.tensors.len()))
    }

    /// Pairs the bytes with tensor `number`; fails if their length is not the
    /// tensor's stored length.
    fn stored<'a>(
        &self,
        number: usize,
        bytes: &'a [u8],
        base: Option<&'a [u8]>,
    ) -> Result<StoredTensor<'a, '_>> {
        let tensor = self.tensor(number)?;
        if bytes.len() as u64 != tensor.stored_len_bytes() {
            let detail = "these are not the tensor's stored bytes";
            return Err(Error::invalid_input(detail).tensor(&tensor.name));
        }
        Ok(StoredTensor {
            tensor,
            number,
            bytes,
            base,
        })
    }
}
