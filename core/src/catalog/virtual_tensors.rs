//! The tensors of a ZSTN file that restores a file of another format
//! (docs/formats/zstn-virtual-header.md). The catalog lists the tensors of that
//! file, the *original*, with their real types and shapes. Its entries, which
//! fill the original, replace them in [`FileCatalog::entries`].

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::format::AnyContents;
use super::range_plan::RangePlan;
use super::{FileCatalog, FileKind, FileTensor};
use crate::container::foreign::ElementCoding;
use crate::container::foreign::strided::gather;
use crate::container::safetensors::Header;
use crate::container::zstn::rows::FrameTable;
use crate::container::zstn::virtual_header::{Description, PlacedTensor, UNKNOWN_KIND};
use crate::dtype::Dtype;
use crate::{Error, Result, Rule, bytes, sort};

/// How the values of a tensor are read from the entry that holds it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Reading {
    /// The number of the entry.
    entry: usize,
    /// The length of the decoded entry in bytes.
    entry_len_bytes: u64,
    /// The range of the tensor in the decoded entry. A tensor without bytes has no
    /// entry, and this is its place in the original.
    pub(super) window: Range<u64>,
    pub(super) coding: ElementCoding,
    /// The strides in elements, unless the elements are row-major.
    pub(super) strides: Option<Vec<u64>>,
}

impl Reading {
    /// Returns the number of the entry.
    pub fn entry(&self) -> usize {
        self.entry
    }

    /// Returns the length of the decoded entry in bytes.
    pub fn entry_len_bytes(&self) -> u64 {
        self.entry_len_bytes
    }

    /// Returns whether the decoded entry is the tensor.
    pub fn is_all(&self) -> bool {
        self.is_of_all() && self.coding == ElementCoding::Plain
    }

    /// Returns whether the values are those of the whole entry, in its order. A tensor
    /// without bytes may have no entry, so it is none.
    fn is_of_all(&self) -> bool {
        self.window == (0..self.entry_len_bytes)
            && !self.window.is_empty()
            && self.strides.is_none()
    }

    /// Returns whether the values are in a part of the entry, so that the rest of it need
    /// not be decoded.
    fn is_of_part(&self) -> bool {
        !self.window.is_empty() && self.window != (0..self.entry_len_bytes)
    }

    /// Returns the values of `tensor` from the decoded entry.
    pub fn values(&self, tensor: &FileTensor, entry: Vec<u8>) -> Result<Vec<u8>> {
        if self.is_all() {
            return Ok(entry);
        }
        self.values_in(tensor, bytes::part(&entry, self.window.clone()))
    }

    /// Returns the values of `tensor` from the bytes `stored`, its range of the decoded
    /// entry.
    fn values_in(&self, tensor: &FileTensor, stored: &[u8]) -> Result<Vec<u8>> {
        match &self.strides {
            None => Ok(self.coding.decode(stored)?.into_owned()),
            Some(strides) => {
                let width = tensor.dtype.len_bytes().unwrap_or(1);
                gather(stored, &tensor.shape, strides, width)
            }
        }
    }

    /// Plans how to read the bytes `span` of the tensor, whose entry has its frame at
    /// `start` and has this `table`. Returns `None` if the tensor has to be read as a
    /// whole.
    pub fn plan(&self, start: u64, table: &FrameTable, span: &Range<u64>) -> Option<RangePlan> {
        if self.strides.is_some() {
            return None;
        }
        let units = self.coding.units(span);
        let window = self.window.start;
        let stored = window + units.stored.start..window + units.stored.end;
        Some(RangePlan::of_frame(start, table, stored).in_units(self.coding, &units, span))
    }

    /// Returns the same reading of entry 0.
    #[cfg(feature = "decode-task")]
    pub fn project(&self) -> Self {
        Self {
            entry: 0,
            ..self.clone()
        }
    }
}

/// What a catalog knows about the original besides its tensors.
#[derive(Debug, Clone)]
pub(super) struct Original {
    kind: String,
    is_complete: bool,
    /// The entries of the virtual header, and its metadata. Empty once the catalog
    /// lists them.
    entries: Vec<FileTensor>,
    metadata: BTreeMap<String, String>,
    lists_entries: bool,
}

impl Original {
    /// Returns the description of the original in the virtual header `json`, which has
    /// been parsed to `header`, for a catalog that lists its entries. The original has to
    /// be opened for its tensors.
    ///
    /// # Errors
    /// [`Rule::ZstnVirtualHeader`] for a header that is not virtual.
    #[cfg(feature = "deltas")]
    pub fn of_entries(json: &[u8], header: &Header) -> Result<Self> {
        Ok(Self {
            kind: Description::parse(json, header)?.kind,
            is_complete: false,
            entries: Vec::new(),
            metadata: BTreeMap::new(),
            lists_entries: true,
        })
    }
}

impl FileCatalog {
    /// Replaces the entries that the catalog of a ZSTN file lists with the tensors
    /// of the original. `header` is the parsed virtual header `json`.
    pub(super) fn listing_original(mut self, json: &[u8], header: &Header) -> Result<Self> {
        let description = Description::parse(json, header)?;
        let entries = core::mem::take(&mut self.tensors);
        let mut listed = Listed::new(&entries, self.data_len_bytes);
        for (number, entry) in entries.iter().enumerate() {
            let FileTensor {
                name,
                dtype,
                shape,
                span,
                ..
            } = entry;
            if let Some(tensor) = description.tensor(name, *dtype, shape, span.start)? {
                listed.add(tensor, Some(number))?;
            }
        }
        for view in description.views {
            listed.add(view, None)?;
        }
        let Listed {
            tensors, readings, ..
        } = listed;
        if let AnyContents::Zstn(contents) = &mut self.contents {
            contents.readings = readings;
        }
        self.original = Some(Original {
            kind: description.kind,
            is_complete: description.is_complete,
            entries,
            metadata: core::mem::take(&mut self.metadata),
            lists_entries: false,
        });
        self.original_header = None;
        self.list(tensors);
        Ok(self)
    }

    fn list(&mut self, tensors: Vec<FileTensor>) {
        let names = tensors.iter().map(|tensor| tensor.name.clone());
        self.by_name = sort::map(names.zip(0..));
        self.tensors = tensors;
    }

    /// Returns the catalog of the entries of the file. It differs from the catalog
    /// of the tensors if the file restores a file of another format: the entries
    /// fill that file, and bytes of quantised tensors are `U8`.
    #[must_use]
    pub fn entries(mut self) -> Self {
        let Some(original) = &mut self.original else {
            return self;
        };
        if original.lists_entries {
            return self;
        }
        original.lists_entries = true;
        self.metadata = core::mem::take(&mut original.metadata);
        let entries = core::mem::take(&mut original.entries);
        if let AnyContents::Zstn(contents) = &mut self.contents {
            contents.readings = Vec::new();
        }
        self.list(entries);
        self
    }

    /// Returns the format of the file that a ZSTN file or a delta restores, if that is no
    /// safetensors file: the [name](super::FileKind::name) of a format, or `bytes`.
    /// It is a claim of the file.
    #[must_use]
    pub fn original_kind(&self) -> Option<&str> {
        self.original
            .as_ref()
            .map(|original| original.kind.as_str())
    }

    /// Returns the name of the file's format, or of the format of the file that it restores.
    /// Returns `None` if that file was packed as bytes, which are never stored as a delta.
    #[must_use]
    pub fn delta_format(&self) -> Option<&str> {
        match (self.original_kind(), self.kind()) {
            (Some(kind), _) => (kind != UNKNOWN_KIND).then_some(kind),
            (None, FileKind::Zstn | FileKind::Delta) => Some(FileKind::Safetensors.name()),
            (None, kind) => Some(kind.name()),
        }
    }

    /// Returns whether the catalog lists all tensors of the original. If not, the
    /// original has to be opened inside the packed file.
    #[must_use]
    pub fn is_original_complete(&self) -> bool {
        self.original
            .as_ref()
            .is_none_or(|original| original.is_complete)
    }

    /// Returns the reason why not all tensors of the original can be read, if the
    /// catalog lists only some of them.
    pub(crate) fn unlisted(&self) -> Option<Error> {
        let original = self.original.as_ref()?;
        (!original.is_complete && !original.lists_entries).then(|| {
            let kind = &original.kind;
            Error::unsupported(format!(
                "the packed file does not list all tensors of the file that it restores, whose \
                 format is {kind}: restore that file with `zstn unpack`, and open it"
            ))
        })
    }

    /// Returns how tensor `number` is read from its entry, if the catalog lists the
    /// tensors of the original.
    fn reading(&self, number: usize) -> Option<&Reading> {
        match &self.contents {
            AnyContents::Zstn(contents) => contents.readings.get(number),
            _ => None,
        }
    }

    /// Returns the range of the original that holds the values of tensor `number`, if
    /// they are only a part of an entry. To read such a tensor without decoding the whole
    /// entry, read this range from the [entries](FileCatalog::entries), and pass it to
    /// [`FileCatalog::values_of_part`].
    #[must_use]
    pub fn part_of_entry(&self, number: usize) -> Option<Range<u64>> {
        let reading = self
            .reading(number)
            .filter(|reading| reading.is_of_part())?;
        let entry = self.original.as_ref()?.entries.get(reading.entry)?;
        let start = entry.span.start;
        Some(start + reading.window.start..start + reading.window.end)
    }

    /// Returns the share of tensor `number` in the stored bytes of its entry, rounded up.
    /// `None` if the tensor is no part of an entry.
    pub(crate) fn stored_share_bytes(&self, number: usize) -> Option<u64> {
        let part = self.part_of_entry(number)?;
        let entry_len_bytes = u128::from(self.reading(number)?.entry_len_bytes.max(1));
        let stored = u128::from(self.tensors.get(number)?.stored_len_bytes());
        let share = stored * u128::from(part.end - part.start);
        u64::try_from(share.div_ceil(entry_len_bytes)).ok()
    }

    /// Returns whether [`FileCatalog::part_of_entry`] returns a range for any tensor.
    #[must_use]
    pub fn has_parts_of_entries(&self) -> bool {
        (0..self.tensors.len()).any(|number| self.part_of_entry(number).is_some())
    }

    /// Returns the decoded tensor `number` from the bytes of the range that
    /// [`FileCatalog::part_of_entry`] has returned. The bytes are not compared with a
    /// digest of the file.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the tensor is no part of an
    /// entry, or `bytes` does not have the length of its range.
    pub fn values_of_part(&self, number: usize, bytes: &[u8]) -> Result<Vec<u8>> {
        let tensor = self.tensor(number)?;
        let range = self.part_of_entry(number);
        match self.reading(number).zip(range) {
            Some((reading, range)) if range.end - range.start == bytes.len() as u64 => reading
                .values_in(tensor, bytes)
                .map_err(|error| error.tensor(&tensor.name)),
            _ => Err(
                Error::invalid_input("these are not the bytes of a part of an entry")
                    .tensor(&tensor.name),
            ),
        }
    }

    /// Replaces the metadata of a catalog that lists the tensors of the original with the
    /// metadata of `original`, the catalog of the restored file.
    pub fn take_metadata(&mut self, original: Self) {
        self.metadata = original.metadata;
    }

    /// Returns whether the tensors fill the restored file from its first byte to its
    /// last, in the order of their spans.
    #[must_use]
    pub(crate) fn are_entries_listed(&self) -> bool {
        self.original
            .as_ref()
            .is_some_and(|original| original.lists_entries)
    }

    /// Returns dtypes and shapes of the entries that a catalog of the original's
    /// tensors does not list.
    pub(super) fn hidden_entries(&self) -> Option<&[FileTensor]> {
        let original = self
            .original
            .as_ref()
            .filter(|original| !original.lists_entries)?;
        Some(&original.entries)
    }

    /// Returns the length in bytes of tensor `number` in the original, if the catalog
    /// lists the tensors of the original.
    pub(super) fn packed_len_bytes(&self, number: usize) -> Option<u64> {
        let window = &self.reading(number)?.window;
        Some(window.end - window.start)
    }

    /// Returns the coding of tensor `number` of the original.
    pub(super) fn packed_coding(&self, number: usize) -> Option<ElementCoding> {
        Some(self.reading(number)?.coding)
    }
}

/// The tensors of the original that have been listed so far.
struct Listed<'e> {
    entries: &'e [FileTensor],
    original_len_bytes: u64,
    /// The numbers of the entries in the order of their offsets.
    order: Vec<usize>,
    /// For each entry, the number of the tensor that it is.
    whole: BTreeMap<usize, usize>,
    end: u64,
    tensors: Vec<FileTensor>,
    readings: Vec<Reading>,
}

impl<'e> Listed<'e> {
    fn new(entries: &'e [FileTensor], original_len_bytes: u64) -> Self {
        let spans = entries
            .iter()
            .map(|entry| (entry.span.start, entry.span.end));
        Self {
            entries,
            original_len_bytes,
            order: sort::by_key(spans),
            whole: BTreeMap::new(),
            end: 0,
            tensors: Vec::new(),
            readings: Vec::new(),
        }
    }

    /// Adds a tensor, which is the entry of this number or a view.
    fn add(&mut self, tensor: PlacedTensor, number: Option<usize>) -> Result<()> {
        let range = tensor.range()?;
        let name = tensor.name;
        let outside = || {
            let detail = "the view does not lie inside one entry of the header";
            Error::malformed(Rule::ZstnVirtualHeader, detail).tensor(&name)
        };
        let found = match number {
            Some(number) => self.entries.get(number).map(|entry| (number, entry)),
            None if range.is_empty() => None,
            None => self.holding(&range),
        };
        // A tensor without bytes may lie anywhere, and has no entry.
        let is_nowhere = range.is_empty() && range.end <= self.original_len_bytes;
        let (number, span, stored) = match found {
            Some((number, entry)) if range.end <= entry.span.end => {
                (number, entry.span.clone(), entry.stored.clone())
            }
            None if is_nowhere => (0, 0..0, 0..0),
            _ => return Err(outside()),
        };
        let reading = Reading {
            entry: number,
            entry_len_bytes: span.end - span.start,
            window: range.start - span.start..range.end - span.start,
            coding: tensor.stored_type.coding(),
            strides: tensor.strides,
        };
        let alias_of = self.alias(number, &reading, tensor.stored_type.dtype());
        if reading.is_of_all() {
            self.whole.insert(number, self.tensors.len());
        }
        // The range has been checked to have at most 2^63 - 1 elements and bytes.
        let count = crate::tensor::element_count(&tensor.shape).unwrap_or(u64::MAX);
        let len_bytes = count.saturating_mul(tensor.stored_type.dtype().bits() / 8);
        let start = self.end;
        self.end = start.checked_add(len_bytes).ok_or_else(|| {
            Error::limit("the tensors have more bytes than 64 bits can count").tensor(&name)
        })?;
        self.tensors.push(FileTensor {
            name,
            dtype: tensor.stored_type.dtype(),
            shape: tensor.shape,
            span: start..self.end,
            stored,
            base: None,
            alias_of,
        });
        self.readings.push(reading);
        Ok(())
    }

    /// Returns the entry that holds a range of the original.
    fn holding(&self, range: &Range<u64>) -> Option<(usize, &'e FileTensor)> {
        let starts_by = |number: &usize| self.entries[*number].span.start <= range.start;
        let at = self.order.partition_point(starts_by).checked_sub(1)?;
        let number = *self.order.get(at)?;
        let entry = self.entries.get(number)?;
        (range.end <= entry.span.end).then_some((number, entry))
    }

    /// Returns the number of an earlier tensor that has the same values because it has
    /// the same frame.
    fn alias(&self, number: usize, reading: &Reading, dtype: Dtype) -> Option<usize> {
        let target = self.entries.get(number)?.alias_of.unwrap_or(number);
        let earlier = *self.whole.get(&target)?;
        let is_same = self.tensors.get(earlier)?.dtype == dtype
            && self.readings.get(earlier)?.coding == reading.coding;
        (reading.is_of_all() && is_same).then_some(earlier)
    }
}
