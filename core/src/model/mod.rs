//! A model as its user sees it: one list of tensors, whether they come from one
//! file or several, and whether each one is stored as it is or in parts that
//! `config.json` describes. This module does no I/O; the caller supplies the
//! byte ranges that [`ModelBuilder`] and [`StoredPart`] state.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::catalog::{BaseUse, FileCatalog, FileKind, Refused, copy};
use crate::container::model_delta::ShortDigest;
use crate::dtype::Dtype;
use crate::engine::Engine;
use crate::tensor::element_count;
use crate::{Error, Result};

mod base;
mod builder;
#[cfg(feature = "decode-task")]
mod decode_task;
#[cfg(feature = "compressed-tensors")]
mod dense;
#[cfg(not(feature = "compressed-tensors"))]
#[path = "dense_disabled.rs"]
mod dense;
mod rows;
#[cfg(feature = "virtual-headers")]
mod stored_shares;
mod unpacked;

pub use crate::container::zstn::integrity::Verify;
pub use builder::{ModelBuilder, wants_config};
#[cfg(feature = "decode-task")]
pub use decode_task::DecodeTask;
pub use dense::Weight;
pub use rows::Rows;
pub use unpacked::{Piece, Unpacked};

/// The location of a stored tensor: the number of its file, and its number in
/// the catalog of that file.
type TensorLocation = (usize, usize);

/// A stored tensor from which a tensor of the model is decoded, by itself or
/// together with others.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredPart {
    /// The number of the file, an index of [`Model::files`].
    pub file: usize,
    /// The number of the stored tensor in the catalog of its file.
    pub number: usize,
    /// The range of the file to fetch.
    pub stored: Range<u64>,
}

impl StoredPart {
    /// Returns the number of bytes to fetch.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.stored.end - self.stored.start
    }
}

/// One tensor of a model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TensorInfo {
    /// The name, unique within the model.
    pub name: String,
    /// The element type.
    pub dtype: Dtype,
    /// The shape, outermost dimension first. Empty for a scalar.
    pub shape: Vec<u64>,
    /// The parts to fetch: one, or several for a [`TensorInfo::weight`].
    pub parts: Vec<StoredPart>,
    /// How the tensor depends on the base's tensor called
    /// [`Model::name_in_base`], if it does.
    pub base: Option<BaseUse>,
    /// The number of the tensor with which this one shares its stored bytes, if
    /// it does. In files written by other programs that tensor may come later
    /// in the list.
    pub alias_of: Option<usize>,
    len_bytes: u64,
    /// The weight is boxed because it is large and few tensors have one.
    weight: Option<Box<Weight>>,
    /// The name of the element type of a GGUF file, if it stores blocks.
    #[cfg(feature = "gguf")]
    block_type: Option<&'static str>,
    /// The length in bytes of quantised values in the original.
    #[cfg(any(feature = "compressed-tensors", feature = "gguf"))]
    quantised_len_bytes: Option<u64>,
    /// The share in the stored bytes of an entry, if the tensor is only a part of it.
    #[cfg(feature = "virtual-headers")]
    stored_share_bytes: Option<u64>,
    /// The use of the base by the records that hold the tensor in a packed file.
    #[cfg(feature = "virtual-headers")]
    record_base: Option<BaseUse>,
}

impl TensorInfo {
    /// Returns the length in bytes of the decoded tensor, which is
    /// little-endian and row-major.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns the number of bytes stored for the tensor in all of its files,
    /// including bytes shared with other tensors.
    #[must_use]
    pub fn stored_len_bytes(&self) -> u64 {
        self.parts.iter().map(StoredPart::len_bytes).sum()
    }

    /// Returns the length of the tensor in bytes in the file that it was packed from,
    /// or in its own file if that is not packed. It differs from
    /// [`TensorInfo::len_bytes`] for quantised values, which have a
    /// [`TensorInfo::format`]: the length of the blocks, or of all parts of a weight.
    #[must_use]
    pub fn original_len_bytes(&self) -> u64 {
        #[cfg(any(feature = "compressed-tensors", feature = "gguf"))]
        if let Some(len_bytes) = self.quantised_len_bytes {
            return len_bytes;
        }
        self.len_bytes
    }

    /// Returns the number of stored bytes that the tensor takes:
    /// [`TensorInfo::stored_len_bytes`], or, if the tensor is only a part of an entry of a
    /// packed file ([`Model::part_of_entry`], [`Model::take_stored_shares`]), its share of
    /// the stored bytes of that entry, rounded up.
    #[must_use]
    pub fn stored_share_bytes(&self) -> u64 {
        #[cfg(feature = "virtual-headers")]
        if let Some(share_bytes) = self.stored_share_bytes {
            return share_bytes;
        }
        self.stored_len_bytes()
    }

    /// Returns how the stored bytes of the tensor depend on a base. This is
    /// [`TensorInfo::base`], or, in a model of the file that a delta restores
    /// ([`Model::take_stored_shares`]), the use of the base by the records that hold the
    /// tensor: [`BaseUse::Copy`] if all of them are copies.
    #[must_use]
    pub fn base_use(&self) -> Option<BaseUse> {
        #[cfg(feature = "virtual-headers")]
        if let Some(base) = self.record_base {
            return Some(base);
        }
        self.base
    }

    /// Returns the stored part that decodes to the tensor; `None` for a weight
    /// that is computed from its parts.
    fn only_part(&self) -> Option<&StoredPart> {
        match self.parts.as_slice() {
            [only] if self.weight.is_none() => Some(only),
            _ => None,
        }
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn element_count(&self) -> u64 {
        // The length in bytes fits in 64 bits, which opening has checked.
        element_count(&self.shape).unwrap_or(u64::MAX)
    }

    /// Returns the description of how the tensor is computed from its parts, if
    /// it is a weight of compressed-tensors.
    #[must_use]
    pub fn weight(&self) -> Option<&Weight> {
        self.weight.as_deref()
    }

    /// Returns the name of the format in which quantised values are stored: a
    /// compressed-tensors format such as `pack-quantized`, or an element type
    /// of GGUF such as `Q4_K`. `None` for other tensors.
    #[must_use]
    pub fn format(&self) -> Option<&'static str> {
        let format = self.weight.as_deref().map(dense::format);
        #[cfg(feature = "gguf")]
        let format = format.or(self.block_type);
        format
    }
}

/// The tensors of one file or of several files. Made by [`ModelBuilder`].
#[derive(Debug, Clone)]
pub struct Model {
    files: Vec<FileCatalog>,
    tensors: Vec<TensorInfo>,
    by_name: BTreeMap<String, usize>,
    /// The weights that cannot be read, with the reasons.
    refused: Refused,
    metadata: BTreeMap<String, String>,
    is_dense: bool,
    is_rotated: bool,
    /// The names of the base's tensors that tensors with other names depend on, by the
    /// numbers of these. Few models have any, so they are not fields of every tensor.
    names_in_base: BTreeMap<usize, String>,
}

impl Model {
    /// Returns the format of the files, or [`FileKind::CompressedTensors`] if
    /// reading them required `config.json`.
    #[must_use]
    pub fn kind(&self) -> FileKind {
        if self.is_dense {
            return FileKind::CompressedTensors;
        }
        self.files[0].kind()
    }

    /// Returns the files, in the order of their numbers. There is at least one.
    #[must_use]
    pub fn files(&self) -> &[FileCatalog] {
        &self.files
    }

    /// Returns the total length of all files in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        let lens = self.files.iter().map(FileCatalog::len_bytes);
        lens.fold(0, u64::saturating_add)
    }

    /// Returns the total length in bytes of the safetensors files that the
    /// model is, or was packed from. For files of other formats and for
    /// weights made dense there are no such files, and the result is the total
    /// length of the decoded tensors.
    #[must_use]
    pub fn original_len_bytes(&self) -> u64 {
        let add = u64::saturating_add;
        match self.is_dense {
            true => self.tensors.iter().map(TensorInfo::len_bytes).fold(0, add),
            false => {
                let lens = self.files.iter().map(FileCatalog::original_len_bytes);
                lens.fold(0, add)
            }
        }
    }

    /// Returns the merged entries of `__metadata__` in all headers
    /// (docs/formats/sharded.md 2); for a zTensor file, the attributes that are
    /// strings; for a GGUF file, the metadata as text, with long arrays
    /// shortened.
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// Returns all tensors, file by file, and within a file in the order of its
    /// index.
    #[must_use]
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// Returns the tensors of the model that cannot be read, by name, with the
    /// reasons. They are weights whose parts do not make a tensor (the parts
    /// themselves are among the tensors), tensors of a dtype that this version
    /// does not know, and tensors that the index assigns to a file without
    /// them.
    pub fn refused(&self) -> impl Iterator<Item = (&str, &Error)> {
        self.refused.iter()
    }

    /// Returns the short digest that the file stores for tensor `number`
    /// ([`FileCatalog::tensor_digest`]). It is a claim of the file until the
    /// tensor has been read and compared with it.
    #[must_use]
    pub fn tensor_digest(&self, number: usize) -> Option<ShortDigest> {
        let part = self.tensors.get(number)?.only_part()?;
        self.files[part.file].tensor_digest(part.number)
    }

    /// Returns whether weights were rotated before they were quantised.
    /// Decoding such a weight yields the rotated values.
    #[must_use]
    pub fn is_rotated(&self) -> bool {
        self.is_rotated
    }

    /// Returns the number of the tensor called `name`: its index in
    /// [`Model::tensors`].
    ///
    /// # Errors
    /// The reason if the tensor cannot be read, and
    /// [`NotFound`](crate::ErrorKind::NotFound) if the model has no such
    /// tensor.
    pub fn find(&self, name: &str) -> Result<usize> {
        match (self.by_name.get(name), self.refused.get(name)) {
            (Some(number), _) => Ok(*number),
            (None, Some(refusal)) => Err(refusal.clone()),
            (None, None) => Err(Error::not_found(name)),
        }
    }

    /// Returns tensor `number`.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the number is out of
    /// bounds.
    pub fn tensor(&self, number: usize) -> Result<&TensorInfo> {
        let tensor = self.tensors.get(number);
        tensor.ok_or_else(|| Error::no_such("tensor", number, self.tensors.len()))
    }

    /// Returns whether the stored bytes of tensor `number` are its decoded
    /// bytes, so there is nothing to decode or compare.
    #[must_use]
    pub fn is_plain(&self, number: usize) -> bool {
        self.tensors.get(number).is_some_and(|tensor| {
            let mut files = tensor.parts.iter().map(|part| &self.files[part.file]);
            tensor.weight.is_none() && files.all(|file| file.kind() == FileKind::Safetensors)
        })
    }

    /// Returns the stored part whose bytes are the decoded bytes of tensor
    /// `number`, if [`Model::is_plain`] and there is only one part.
    #[must_use]
    pub fn plain_part(&self, number: usize) -> Option<&StoredPart> {
        let tensor = self.tensors.get(number).filter(|_| self.is_plain(number))?;
        match &tensor.parts[..] {
            [part] if part.len_bytes() == tensor.len_bytes => Some(part),
            _ => None,
        }
    }

    /// Returns the range of the original that holds the values of tensor `number`, if
    /// they are only a part of an entry ([`FileCatalog::part_of_entry`]).
    #[cfg(feature = "virtual-headers")]
    #[must_use]
    pub fn part_of_entry(&self, number: usize) -> Option<Range<u64>> {
        let part = self.tensors.get(number)?.only_part()?;
        self.files[part.file].part_of_entry(part.number)
    }

    /// Returns the decoded tensor `number` from the bytes of the range that
    /// [`Model::part_of_entry`] has returned ([`FileCatalog::values_of_part`]).
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the tensor is no part of an
    /// entry, or `bytes` does not have the length of its range.
    #[cfg(feature = "virtual-headers")]
    pub fn values_of_part(&self, number: usize, bytes: &[u8]) -> Result<Vec<u8>> {
        let tensor = self.tensor(number)?;
        match tensor.only_part() {
            Some(part) => self.files[part.file].values_of_part(part.number, bytes),
            None => Err(Error::invalid_input("the tensor has several parts").tensor(&tensor.name)),
        }
    }

    /// Decodes tensor `number` from the bytes of its parts, in the order of
    /// [`TensorInfo::parts`]. If the tensor has a [`TensorInfo::base`], `base` contains
    /// the bytes of the base's tensor [`Model::name_in_base`].
    pub fn decode<'a, E: Engine>(
        &self,
        engine: &E,
        number: usize,
        parts: &[&'a [u8]],
        base: Option<&'a [u8]>,
    ) -> Result<Cow<'a, [u8]>> {
        let tensor = self.tensor(number)?;
        let locations = tensor.parts.iter();
        let locations = locations.map(|part| (&self.files[part.file], part.number));
        let weight = tensor.weight.as_deref();
        let weight = weight.map(|weight| (weight, tensor.shape.as_slice()));
        decode(&tensor.name, locations, weight, engine, parts, base)
    }
}

/// Decodes a tensor from the bytes of its parts. `locations` gives the catalog
/// of each part and its number there. `weight` contains the
/// [`TensorInfo::weight`] and the shape of the result, for a tensor that has
/// one.
fn decode<'a, 'm, E: Engine>(
    name: &str,
    locations: impl ExactSizeIterator<Item = (&'m FileCatalog, usize)>,
    weight: Option<(&Weight, &[u64])>,
    engine: &E,
    parts: &[&'a [u8]],
    base: Option<&'a [u8]>,
) -> Result<Cow<'a, [u8]>> {
    if parts.len() != locations.len() {
        return Err(Error::invalid_input("these are not the parts of the tensor").tensor(name));
    }
    let mut decoded = locations
        .zip(parts)
        .map(|((file, number), &stored)| file.decode_against(engine, number, stored, base));
    let Some((weight, shape)) = weight else {
        return decoded.next().unwrap_or(Ok(Cow::Borrowed(&[])));
    };
    let decoded = decoded.collect::<Result<Vec<_>>>()?;
    let parts: Vec<&[u8]> = decoded.iter().map(|part| &**part).collect();
    dense::decode(weight, shape, &parts).map(Cow::Owned)
}

impl Model {
    /// Decodes tensor `number` into `out`, otherwise like [`Model::decode`]. A
    /// tensor of a ZSTN file is decoded directly into `out`; other tensors are
    /// decoded to a new buffer and then copied.
    ///
    /// # Errors
    /// The errors of [`Model::decode`], and
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if `out` does not have
    /// the length of the tensor. The content of `out` is unspecified after an
    /// error.
    pub fn decode_into<E: Engine>(
        &self,
        engine: &E,
        number: usize,
        parts: &[&[u8]],
        base: Option<&[u8]>,
        out: &mut [u8],
    ) -> Result<()> {
        let tensor = self.tensor(number)?;
        if let (None, [part], [stored]) = (&tensor.weight, &tensor.parts[..], parts) {
            let file = &self.files[part.file];
            return file.decode_into(engine, part.number, stored, base, out);
        }
        let decoded = self.decode(engine, number, parts, base)?;
        copy(&tensor.name, &decoded, out)
    }
}
