//! The places of tensors in a file of another format than safetensors: the virtual header
//! with which the file is packed (docs/formats/zstn-virtual-header.md), and its comparison
//! with the file that was restored.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use super::format::AnyContents;
use super::{FileCatalog, FileKind, FileTensor};
use crate::container::foreign::ElementCoding;
use crate::container::safetensors::Header;
use crate::container::zstn::virtual_header::{
    PlacedTensor, StoredType, UNKNOWN_KIND, VirtualHeader,
};
use crate::{Error, Result, Rule};

impl FileCatalog {
    /// Compares the tensors that this catalog of a packed file lists with `original`, the
    /// catalog of the restored file, or the reason why it cannot be opened.
    ///
    /// An original of a format that this version does not read is accepted, and so is one
    /// that was packed as bytes: another version may read more formats.
    ///
    /// # Errors
    /// [`Rule::ZstnVirtualHeader`] if the original is of another format, has no such
    /// tensor, or has more tensors although the header claims to describe all.
    pub fn check_original(&self, original: Result<Self>) -> Result<()> {
        let Some(claimed) = self.original_kind().filter(|kind| *kind != UNKNOWN_KIND) else {
            return match self.tensors.first() {
                None => Ok(()),
                Some(tensor) => Err(other_original(&tensor.name)),
            };
        };
        let is_read = |kind: &&FileKind| kind.name() == claimed && kind.is_included();
        if !FileKind::FILES.iter().any(|kind| is_read(&kind)) {
            return Ok(());
        }
        let original = original?;
        let found = original.kind().name();
        if found != claimed {
            let detail = format!(
                "the header of the packed file describes a file of the format {claimed}, and the \
                 restored file is of the format {found}: pack it again"
            );
            return Err(Error::malformed(Rule::ZstnVirtualHeader, detail));
        }
        for (number, tensor) in self.tensors.iter().enumerate() {
            let there = original.find(&tensor.name).ok();
            let there = there.and_then(|number| {
                let tensor = original.tensors.get(number)?;
                original.contents.place(tensor, number)
            });
            let is_there = match (&there, &self.place_in_original(number)) {
                (Some(there), Some(here)) => is_same(there, here),
                _ => false,
            };
            if !is_there {
                return Err(other_original(&tensor.name));
            }
        }
        let is_all = original.tensors.len() == self.tensors.len()
            && original.refused.iter().next().is_none()
            && !original.has_external_files();
        if self.is_original_complete() && !is_all {
            let detail = format!(
                "the header of the packed file describes {} tensors as all tensors, and the \
                 restored file has others: pack it again",
                self.tensors.len()
            );
            return Err(Error::malformed(Rule::ZstnVirtualHeader, detail));
        }
        Ok(())
    }

    /// Returns tensor `number` of the original with its place there.
    fn place_in_original(&self, number: usize) -> Option<PlacedTensor> {
        let AnyContents::Zstn(contents) = &self.contents else {
            return None;
        };
        let (tensor, reading) = (self.tensors.get(number)?, contents.readings.get(number)?);
        let stored_type = match reading.coding {
            ElementCoding::Blocks(element, _) => StoredType::Blocks(element),
            _ => StoredType::Plain(tensor.dtype),
        };
        let entry = match reading.window.is_empty() {
            // A tensor without bytes has no entry.
            true => 0,
            false => self.hidden_entries()?.get(reading.entry())?.span.start,
        };
        let placed = tensor.placed(stored_type, reading.strides.clone());
        Some(PlacedTensor {
            offset_bytes: entry + reading.window.start,
            ..placed
        })
    }

    /// Returns the virtual header with which the file can be packed
    /// (docs/formats/zstn-virtual-header.md).
    ///
    /// # Errors
    /// [`Limit`](crate::ErrorKind::Limit) if it would be longer than a header may be.
    pub fn virtual_header(&self) -> Result<VirtualHeader> {
        let all = self.tensors.iter().enumerate();
        let placed = all.filter_map(|(number, tensor)| self.contents.place(tensor, number));
        let placed: Vec<PlacedTensor> = placed.collect();
        let is_complete = placed.len() == self.tensors.len()
            && self.refused.iter().next().is_none()
            && !self.has_external_files();
        VirtualHeader::new(self.kind().name(), placed, is_complete, self.len_bytes)
    }

    /// Returns the catalog of the entries as which the file is packed. They fill the file
    /// from its first byte to its last, and bytes of quantised tensors are `U8`.
    ///
    /// # Errors
    /// The errors of [`FileCatalog::virtual_header`].
    pub fn entries_to_pack(&self) -> Result<Self> {
        let len_bytes = self.len_bytes;
        let header = Header::parse(self.virtual_header()?.json(), len_bytes)?;
        let tensors = header.tensors.into_iter().map(|tensor| FileTensor {
            name: tensor.name,
            dtype: tensor.dtype,
            shape: tensor.shape,
            stored: tensor.span.clone(),
            span: tensor.span,
            base: None,
            alias_of: None,
        });
        Self::new(
            AnyContents::Safetensors(super::safetensors::FormatContents),
            len_bytes,
            len_bytes,
            None,
            BTreeMap::new(),
            tensors.collect(),
        )
    }

    /// Returns whether values of some tensors are in other files.
    fn has_external_files(&self) -> bool {
        #[cfg(feature = "onnx")]
        let found = self.external_files().next().is_some();
        #[cfg(not(feature = "onnx"))]
        let found = false;
        found
    }
}

impl FileTensor {
    /// Returns the tensor as one whose stored bytes are its elements, little-endian and in
    /// one piece, or `None` if they are not (`is_plain`). A tensor without bytes is in one
    /// piece wherever it is.
    pub(super) fn placed_plain(
        &self,
        is_plain: bool,
        strides: Option<Vec<u64>>,
    ) -> Option<PlacedTensor> {
        let is_in_file = is_plain || self.len_bytes() == 0;
        let stored_type = StoredType::Plain(self.dtype);
        (is_in_file && self.dtype.len_bytes().is_some()).then(|| self.placed(stored_type, strides))
    }

    /// Returns the tensor as one whose stored bytes are in the file in one piece.
    pub(super) fn placed(
        &self,
        stored_type: StoredType,
        strides: Option<Vec<u64>>,
    ) -> PlacedTensor {
        PlacedTensor {
            name: self.name.clone(),
            stored_type,
            shape: self.shape.clone(),
            offset_bytes: self.stored.start,
            strides,
        }
    }
}

/// Returns whether two tensors of one name are the same. A tensor without bytes has no
/// place, so its offset and its strides do not matter.
fn is_same(one: &PlacedTensor, other: &PlacedTensor) -> bool {
    let is_empty = one.shape.contains(&0);
    let is_in_one_place = one.offset_bytes == other.offset_bytes && one.strides == other.strides;
    one.stored_type == other.stored_type
        && one.shape == other.shape
        && (is_empty || is_in_one_place)
}

fn other_original(name: &str) -> Error {
    let detail = "the header of the packed file describes the tensor in another way than the \
                  restored file: pack it again";
    Error::malformed(Rule::ZstnVirtualHeader, detail).tensor(name)
}
