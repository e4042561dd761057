//! Virtual headers (docs/formats/zstn-virtual-header.md): a ZSTN file with one
//! restores a file of any format, the *original*, which is the data buffer of
//! the header.
//!
//! [`VirtualHeader`] is written by packers. It needs only the tensors of the
//! original as [`PlacedTensor`]s, whatever the format. Catalogs read its entries
//! and views.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::EntryCodings;
use crate::container::foreign::ElementCoding;
use crate::container::foreign::gguf::{ByteOrder, ElementType};
use crate::container::safetensors::{Header, HeaderTensor};
use crate::dtype::Dtype;
use crate::tensor::element_count;
use crate::{Error, Result, Rule};

mod description;
mod layout;
mod spans;

pub(crate) use description::Description;

/// The key of the metadata that describes the original.
const FILE_KEY: &str = "zstn.file";

/// The key of the metadata that lists the views.
const VIEWS_KEY: &str = "zstn.views";

/// The field of an entry that names its block type.
const TYPE_KEY: &str = "type";

/// The kind of an original that was not recognised, or was refused.
pub(crate) const UNKNOWN_KIND: &str = "bytes";

/// The prefix of entries that are no tensors, unless a tensor's name begins with
/// it.
const PREFIX: &str = "@bytes/";

/// The most elements of a tensor, and the most bytes of its values.
const MAX_BYTES: u64 = i64::MAX as u64;

/// Checks that the header `json` of a data buffer of `data_len_bytes` is virtual.
pub(super) fn check(json: &[u8], data_len_bytes: u64) -> Result<()> {
    let header = Header::parse(json, data_len_bytes)?;
    Description::parse(json, &header).map(drop)
}

/// The stored type of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredType {
    /// Little-endian elements of a dtype of whole bytes.
    Plain(Dtype),
    /// Little-endian blocks of quantised elements.
    Blocks(ElementType),
}

impl StoredType {
    /// Returns the name of the type: of the dtype, or of the block type.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain(dtype) => dtype.name(),
            Self::Blocks(element) => element.name(),
        }
    }

    /// Returns the type with this name, or `None` if there is none.
    fn from_name(name: &str) -> Option<Self> {
        let mut dtypes = Dtype::ALL.into_iter();
        let dtype = dtypes.find(|dtype| dtype.name() == name && dtype.len_bytes().is_some());
        let plain = dtype.map(Self::Plain);
        plain.or_else(|| block_type(name).map(Self::Blocks))
    }

    /// Returns the dtype of the values.
    pub(crate) fn dtype(self) -> Dtype {
        match self {
            Self::Plain(dtype) => dtype,
            Self::Blocks(element) => element.dtype(),
        }
    }

    /// Returns how the stored bytes become values.
    pub(crate) fn coding(self) -> ElementCoding {
        match self {
            Self::Plain(_) => ElementCoding::Plain,
            Self::Blocks(element) => element.coding(ByteOrder::Little),
        }
    }

    /// Returns the number of elements in a block, and the bytes of a block. A
    /// plain element is a block of its own.
    pub(crate) fn block(self) -> (u64, u64) {
        match self {
            Self::Plain(dtype) => (1, dtype.bits() / 8),
            Self::Blocks(element) => (element.block_elements(), element.block_bytes()),
        }
    }
}

/// Returns the block type called `name`.
fn block_type(name: &str) -> Option<ElementType> {
    let mut blocks = ElementType::ALL.iter().copied();
    blocks.find(|element| element.is_block() && element.name() == name)
}

/// A tensor whose bytes are in the original in one piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedTensor {
    /// The name, unique within the original.
    pub name: String,
    /// The stored type of the elements.
    pub stored_type: StoredType,
    /// The shape of the values, outermost dimension first.
    pub shape: Vec<u64>,
    /// The offset of the first element from the start of the original, in bytes.
    pub offset_bytes: u64,
    /// The distance in elements between neighbours along each dimension; `None`
    /// for row-major elements without gaps.
    pub strides: Option<Vec<u64>>,
}

impl PlacedTensor {
    /// Returns the range of the original from the first element of the tensor to
    /// its last. It is empty for a tensor without elements.
    ///
    /// # Errors
    /// [`Rule::ZstnVirtualHeader`] for a tensor that has too many elements, rows
    /// that are not whole blocks, strides that do not fit its shape, or more
    /// elements than its range holds.
    pub(crate) fn range(&self) -> Result<Range<u64>> {
        self.checked_range().ok_or_else(|| {
            let detail = "its type, shape, offset and strides do not describe a range of the file";
            Error::malformed(Rule::ZstnVirtualHeader, detail).tensor(&self.name)
        })
    }

    fn checked_range(&self) -> Option<Range<u64>> {
        let (elements, bytes) = self.stored_type.block();
        let count = element_count(&self.shape).filter(|count| *count <= MAX_BYTES)?;
        let value_bytes = self.stored_type.dtype().bits() / 8;
        count
            .checked_mul(value_bytes)
            .filter(|len| *len <= MAX_BYTES)?;
        let row = self.shape.last().copied().unwrap_or(1);
        if !row.is_multiple_of(elements) {
            return None;
        }
        let len_bytes = match &self.strides {
            None => (count / elements).checked_mul(bytes)?,
            Some(strides) => {
                let is_plain = matches!(self.stored_type, StoredType::Plain(_));
                if !is_plain || strides.len() != self.shape.len() {
                    return None;
                }
                let mut last = 0u64;
                for (size, stride) in self.shape.iter().zip(strides) {
                    let steps = size.saturating_sub(1).checked_mul(*stride)?;
                    last = last.checked_add(steps)?;
                }
                let spanned = last.checked_add(1).filter(|spanned| count <= *spanned)?;
                match count {
                    0 => 0,
                    _ => spanned.checked_mul(bytes)?,
                }
            }
        };
        let end = self.offset_bytes.checked_add(len_bytes)?;
        Some(self.offset_bytes..end)
    }
}

/// The virtual header of an original, for a packer.
#[derive(Debug, Clone)]
pub struct VirtualHeader {
    json: Vec<u8>,
    codings: EntryCodings,
    kind: String,
    tensors: usize,
}

impl VirtualHeader {
    /// Creates the header of an original of `len_bytes`, in which a file of the
    /// format `kind` has these tensors. `is_complete` states whether they are all
    /// tensors of the file. Tensors that a header cannot describe are left out.
    ///
    /// # Errors
    /// [`Limit`](crate::ErrorKind::Limit) if the header would be longer than a
    /// header may be.
    pub fn new(
        kind: &str,
        tensors: Vec<PlacedTensor>,
        is_complete: bool,
        len_bytes: u64,
    ) -> Result<Self> {
        layout::header(kind, tensors, is_complete, len_bytes)
    }

    /// Creates the header of an original of `len_bytes` whose tensors are not
    /// known.
    ///
    /// # Errors
    /// [`Limit`](crate::ErrorKind::Limit) for a file of more than 10^13 bytes,
    /// whose header would be longer than a header may be.
    pub fn of_bytes(len_bytes: u64) -> Result<Self> {
        Self::new(UNKNOWN_KIND, Vec::new(), true, len_bytes)
    }

    /// Returns the JSON, with padding.
    #[must_use]
    pub fn json(&self) -> &[u8] {
        &self.json
    }

    /// Returns the format of the original: the name of a
    /// [`FileKind`](crate::catalog::FileKind), or `bytes`.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the number of tensors of the original that the header describes.
    #[must_use]
    pub fn tensor_count(&self) -> usize {
        self.tensors
    }

    /// Returns how the entries are coded.
    #[must_use]
    pub fn codings(&self) -> &EntryCodings {
        &self.codings
    }

    /// Returns the header of a file that consists of the bytes of this entry alone, and
    /// whose entry begins at 0. It has no JSON.
    #[must_use]
    pub fn of_entry(&self, entry: &HeaderTensor) -> Self {
        Self {
            json: Vec::new(),
            codings: self.codings.of_entry(entry),
            kind: self.kind.clone(),
            tensors: 1,
        }
    }
}
