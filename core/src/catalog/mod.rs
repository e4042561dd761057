//! A uniform view of all container formats: the tensors in a file, where their
//! bytes are, and how to decode them. This module does no I/O; the caller
//! supplies the byte ranges that [`FileOpener`] requests.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use crate::container::model_delta::ShortDigest;
use crate::container::safetensors::PREFIX_BYTES;
use crate::dtype::Dtype;
use crate::engine::Engine;
use crate::limits::DIMENSIONS;
use crate::tensor::element_count;
use crate::{Error, Result, sort};
use format::{AnyContents, StoredTensor};

#[cfg(any(feature = "hdf5", feature = "tflite"))]
mod blocks;
mod delta;
mod extension_frames;
mod file_name;
mod file_opener;
mod format;
#[cfg(feature = "decode-task")]
mod frame_task;
#[cfg(feature = "gauss")]
mod gauss;
#[cfg(feature = "gguf")]
mod gguf;
#[cfg(feature = "gguf")]
mod gguf_set;
#[cfg(feature = "hdf5")]
mod hdf5;
#[cfg(any(feature = "keras", feature = "tar"))]
mod inner_file;
#[cfg(feature = "keras")]
mod keras;
#[cfg(feature = "msgpack")]
mod msgpack;
#[cfg(feature = "npy")]
mod npy;
#[cfg(feature = "zip")]
mod npz;
#[cfg(feature = "onnx")]
mod onnx;
#[cfg(feature = "other-formats")]
mod other_format;
#[cfg(feature = "virtual-headers")]
mod placed_tensors;
#[cfg(feature = "zip")]
mod pytorch;
mod range_plan;
mod safetensors;
#[cfg(any(feature = "msgpack", feature = "onnx", feature = "tar"))]
mod sequential;
#[cfg(feature = "tar")]
mod tar;
#[cfg(feature = "tflite")]
mod tflite;
#[cfg(feature = "virtual-headers")]
mod virtual_tensors;
#[cfg(not(feature = "virtual-headers"))]
#[path = "virtual_tensors_disabled.rs"]
mod virtual_tensors;
#[cfg(feature = "zip")]
mod zip;
mod zstn;
#[cfg(feature = "ztensor")]
mod ztensor;

pub use delta::BaseUse;
pub use extension_frames::Extension;
pub use file_name::{
    GgufSetName, IndexName, has_extension, has_other_extension, kind_of_name, packed_name, renamed,
    restored_name,
};
pub use file_opener::{
    FileOpener, format_of_extension, is_other_format, misnamed, recognise, recognise_named,
};
pub use format::FileKind;
#[cfg(feature = "decode-task")]
pub use frame_task::FrameTask;
#[cfg(feature = "keras")]
pub use keras::RangeChecksum;
pub use range_plan::RangePlan;
pub(crate) use range_plan::check_inside;
#[cfg(feature = "ztensor")]
pub use ztensor::DataShard;

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
    #[cfg(feature = "ztensor")]
    #[serde(skip)]
    data_shards: Vec<DataShard>,
    /// The file that a ZSTN file restores, if it is of another format.
    #[cfg(feature = "virtual-headers")]
    #[serde(skip)]
    original: Option<virtual_tensors::Original>,
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
            #[cfg(feature = "ztensor")]
            data_shards: Vec::new(),
            #[cfg(feature = "virtual-headers")]
            original: None,
        })
    }

    /// Returns the tensors of the file that cannot be read, with the reason for
    /// each: the tensors of a plain safetensors file whose dtype this version
    /// does not know, and those of a zTensor file that are stored in other
    /// files ([`FileCatalog::take_data_shards`]).
    pub(crate) fn refused(&self) -> &Refused {
        &self.refused
    }

    /// Returns the format of the file.
    #[must_use]
    pub fn kind(&self) -> FileKind {
        self.contents.kind()
    }

    /// Returns the length of the file in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns the length in bytes of the safetensors file that this file is, or
    /// of the file that it was packed from; for a file of another format, the total
    /// length of its decoded tensors.
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
    /// Returns `None` for files of other formats, which do not store such a header,
    /// and for files that were packed from them.
    #[must_use]
    pub fn original_header(&self) -> Option<&[u8]> {
        self.original_header.as_deref()
    }

    /// Returns the entries of `__metadata__` in the header; for a zTensor file,
    /// the attributes that are strings; for a GGUF file, the metadata as text,
    /// with long arrays shortened.
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
        let stored = || {
            let AnyContents::Zstn(contents) = &self.contents else {
                return None;
            };
            let (entry, _) = contents.entry(self.tensors.get(number)?, number);
            let digest = contents.integrity.as_ref()?.tensor_digest(entry)?;
            digest.first_chunk().filter(|_| contents.is_whole(number))
        };
        stored().copied().or_else(|| self.record_digest(number))
    }

    /// Returns the number of the tensor called `name`: its index in
    /// [`FileCatalog::tensors`].
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
    /// the base's tensor that it depends on. A tensor with [`FileTensor::base`]
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

    /// Returns the number of bytes into which the stored bytes of tensor `number` are
    /// unpacked before its values are taken from them: the length of an inflated member of
    /// an archive, or of the entry of a packed file of which the tensor is a part. Returns
    /// 0 if there is no such step.
    #[must_use]
    pub fn unpacked_len_bytes(&self, number: usize) -> u64 {
        let tensor = self.tensors.get(number);
        tensor.map_or(0, |tensor| self.contents.unpacked_len_bytes(tensor, number))
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

/// One tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileTensor {
    /// The name, unique within the file.
    pub name: String,
    /// The element type.
    pub dtype: Dtype,
    /// The shape, outermost dimension first. Empty for a scalar.
    pub shape: Vec<u64>,
    /// The range of the tensor in the original data buffer. For a zTensor, Gauss
    /// or GGUF file, it refers to a virtual buffer that holds the decoded tensors
    /// back to back.
    pub span: Range<u64>,
    /// The range of the file to fetch. Empty if the tensor is copied from the
    /// base.
    pub stored: Range<u64>,
    /// How the tensor depends on a tensor of the base, if it does.
    pub base: Option<BaseUse>,
    /// The number of the tensor with which this one shares its stored bytes, if
    /// it does. In files written by other programs that tensor may come later
    /// in the list.
    pub alias_of: Option<usize>,
}

impl FileTensor {
    /// Returns the length in bytes of the decoded tensor, which is
    /// little-endian and row-major.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.span.end - self.span.start
    }

    /// Returns the number of bytes stored for the tensor, including bytes
    /// shared with other tensors.
    #[must_use]
    pub fn stored_len_bytes(&self) -> u64 {
        self.stored.end - self.stored.start
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn element_count(&self) -> u64 {
        // Opening the file has checked that the number fits.
        element_count(&self.shape).unwrap_or(u64::MAX)
    }
}

impl FileCatalog {
    /// Decodes tensor `number` into `out`, otherwise like
    /// [`FileCatalog::decode_against`]. The frames of a ZSTN file are decoded
    /// directly into `out`; tensors of other formats are decoded to a new
    /// buffer and then copied.
    ///
    /// # Errors
    /// The errors of [`FileCatalog::decode_against`], and
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if `out` does not have
    /// the length of the tensor. The content of `out` is unspecified after an
    /// error.
    pub fn decode_into<E: Engine>(
        &self,
        engine: &E,
        number: usize,
        stored: &[u8],
        base: Option<&[u8]>,
        out: &mut [u8],
    ) -> Result<()> {
        let stored = self.stored(number, stored, base)?;
        self.contents.decode_into(engine, stored, out)
    }
}

/// Copies the `decoded` bytes of the tensor called `name` to `out`.
pub(crate) fn copy(name: &str, decoded: &[u8], out: &mut [u8]) -> Result<()> {
    check_len(name, decoded.len() as u64, out)?;
    out.copy_from_slice(decoded);
    Ok(())
}

/// Fails unless `out` has the length of the tensor called `name`.
fn check_len(name: &str, len_bytes: u64, out: &[u8]) -> Result<()> {
    if out.len() as u64 == len_bytes {
        return Ok(());
    }
    let detail = format!(
        "the tensor has {len_bytes} bytes, the buffer to decode it into has {}",
        out.len()
    );
    Err(Error::invalid_input(detail).tensor(name))
}

#[cfg(feature = "decode-task")]
impl FileCatalog {
    /// Returns a catalog that contains only tensor `number` and only the data
    /// required to decode it.
    ///
    /// # Panics
    /// If the number is out of bounds.
    pub(crate) fn project(&self, number: usize) -> Self {
        Self {
            contents: self.contents.project(number),
            tensors: [FileTensor {
                alias_of: None,
                ..self.tensors[number].clone()
            }]
            .into(),
            metadata: BTreeMap::new(),
            by_name: BTreeMap::new(),
            refused: Refused::default(),
            original_header: None,
            #[cfg(feature = "ztensor")]
            data_shards: Vec::new(),
            #[cfg(feature = "virtual-headers")]
            original: None,
            ..*self
        }
    }
}

/// Names of unreadable tensors with their errors, in any order.
pub(crate) type Refusals = Vec<(String, Error)>;

/// The unreadable tensors by name. The map has the same type as the one of
/// [`FileCatalog`], so that no second copy of its generic code is compiled.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refused {
    by_name: BTreeMap<String, usize>,
    errors: Vec<Error>,
}

impl Refused {
    /// Collects names with their errors. For a repeated name, the last error
    /// wins.
    pub(crate) fn new(all: Refusals) -> Self {
        let names = all.iter().map(|(name, _)| name.clone());
        Self {
            by_name: sort::map(names.zip(0..)),
            errors: all.into_iter().map(|(_, error)| error).collect(),
        }
    }

    /// Returns the error of the tensor called `name`, or `None` if it is not
    /// among the unreadable ones.
    pub(crate) fn get(&self, name: &str) -> Option<&Error> {
        self.by_name.get(name).map(|&number| &self.errors[number])
    }

    /// Returns all names and errors, sorted by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Error)> {
        let numbers = self.by_name.iter();
        numbers.map(|(name, &number)| (name.as_str(), &self.errors[number]))
    }
}
