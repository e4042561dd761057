//! Opens a GGUF file. Its header comes first and does not state its own length,
//! so parsing it determines whether more bytes are required.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::file_opener::FetchedRanges;
use super::format::{AnyContents, Contents, Opener, StoredTensor};
use super::range_plan::RangePlan;
use super::{FileCatalog, FileTensor};
#[cfg(feature = "virtual-headers")]
use crate::container::foreign::gguf::ByteOrder;
use crate::container::foreign::gguf::{ElementCoding, GgufHeader, ParsedHeader};
#[cfg(feature = "virtual-headers")]
use crate::container::zstn::virtual_header::{PlacedTensor, StoredType};
use crate::engine::Engine;
use crate::{Error, Result, sort};

/// The opener of a GGUF file. It has no state: the header is parsed again
/// whenever more of it has been fetched, which is at least half as much again
/// each time.
#[derive(Debug, Clone, Default)]
pub(super) struct FormatOpener;

impl Opener for FormatOpener {
    fn needs(&self, fetched: &FetchedRanges) -> Result<Vec<Range<u64>>> {
        Ok(
            match GgufHeader::parse(fetched.head(), fetched.len_bytes())? {
                ParsedHeader::Complete(_) => Vec::new(),
                ParsedHeader::Needs(end) => fetched.missing_head(end).into_iter().collect(),
            },
        )
    }

    fn finish<E: Engine>(self, fetched: &FetchedRanges, _: &E) -> Result<FileCatalog> {
        match GgufHeader::parse(fetched.head(), fetched.len_bytes())? {
            ParsedHeader::Complete(header) => FileCatalog::gguf(header, fetched.len_bytes()),
            ParsedHeader::Needs(_) => Err(Error::invalid_input(
                "not all requested ranges were supplied",
            )),
        }
    }
}

/// The coding of each tensor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FormatContents(Vec<ElementCoding>);

impl Contents for FormatContents {
    fn decode<'a, E: Engine>(&self, _: &E, stored: StoredTensor<'a, '_>) -> Result<Cow<'a, [u8]>> {
        let coding = self.0[stored.number];
        coding.decode(stored.bytes).map_err(stored.in_file())
    }

    fn plan(
        &self,
        tensor: &FileTensor,
        number: usize,
        span: &Range<u64>,
        _: Option<&[u8]>,
    ) -> Result<Option<RangePlan>> {
        let start = tensor.stored.start;
        Ok(Some(RangePlan::of_units(start, self.0[number], span)))
    }

    #[cfg(feature = "virtual-headers")]
    fn place(&self, tensor: &FileTensor, number: usize) -> Option<PlacedTensor> {
        let stored_type = match self.0.get(number)? {
            ElementCoding::Plain => StoredType::Plain(tensor.dtype),
            ElementCoding::Blocks(element, ByteOrder::Little) => StoredType::Blocks(*element),
            _ => return None,
        };
        Some(tensor.placed(stored_type, None))
    }

    #[cfg(feature = "decode-task")]
    fn project(&self, number: usize) -> Self {
        Self([self.0[number]].into())
    }
}

impl FileCatalog {
    fn gguf(header: GgufHeader, file_len_bytes: u64) -> Result<Self> {
        let mut end = 0u64;
        let mut tensors = Vec::new();
        let mut codings = Vec::new();
        for tensor in header.tensors {
            let start = end;
            end = start.checked_add(tensor.len_bytes()).ok_or_else(|| {
                Error::limit("the tensors have more bytes than 64 bits can count")
                    .tensor(&tensor.name)
            })?;
            codings.push(tensor.coding);
            tensors.push(FileTensor {
                name: tensor.name,
                dtype: tensor.element.dtype(),
                shape: tensor.shape,
                span: start..end,
                stored: tensor.stored,
                base: None,
                alias_of: None,
            });
        }
        let metadata = header.metadata.iter();
        let metadata = metadata.map(|entry| (entry.key.into(), entry.value.text()));
        Self::new(
            AnyContents::Gguf(FormatContents(codings)),
            file_len_bytes,
            end,
            None,
            sort::map(metadata),
            tensors,
        )
    }

    /// Returns the name of the element type of tensor `number`, if it is stored
    /// in blocks of a GGUF file, which may be packed, or in elements smaller than
    /// a byte.
    pub(crate) fn block_type(&self, number: usize) -> Option<&'static str> {
        #[cfg(feature = "onnx")]
        if let Some(name) = self.onnx_type(number) {
            return Some(name);
        }
        #[cfg(feature = "tflite")]
        if let Some(name) = self.tflite_type(number) {
            return Some(name);
        }
        #[cfg(feature = "virtual-headers")]
        let packed = self.packed_coding(number);
        #[cfg(not(feature = "virtual-headers"))]
        let packed = None;
        match packed.or_else(|| self.gguf_coding(number))? {
            ElementCoding::Blocks(element, _) => Some(element.name()),
            _ => None,
        }
    }

    /// Returns the length in bytes of tensor `number` in the original, if it has a
    /// [`FileCatalog::block_type`].
    pub(crate) fn quantised_len_bytes(&self, number: usize) -> Option<u64> {
        self.block_type(number)?;
        #[cfg(feature = "virtual-headers")]
        if let Some(len_bytes) = self.packed_len_bytes(number) {
            return Some(len_bytes);
        }
        let tensor = self.tensors.get(number)?;
        Some(tensor.stored_len_bytes())
    }

    /// Returns the coding of tensor `number` of a GGUF file, or `None` for
    /// other formats.
    #[must_use]
    pub fn gguf_coding(&self, number: usize) -> Option<ElementCoding> {
        match &self.contents {
            AnyContents::Gguf(FormatContents(codings)) => codings.get(number).copied(),
            _ => None,
        }
    }
}
