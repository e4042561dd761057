//! The list of tensors, and the ranges of the file that contain them
//! (docs/formats/gguf.md 3).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::ElementCoding;
use super::element_type::ElementType;
use super::field_reader::{FieldReader, Read};
use crate::container::foreign::byte_order::ByteOrder;
use crate::container::foreign::shape::{SIZE, element_count};
use crate::{Error, Result, Rule, sort};

/// The largest number of dimensions of a tensor.
const DIMENSIONS: u32 = 4;

/// The least length in bytes of a tensor's entry: an empty name, the number of
/// dimensions, the type and the offset.
pub(super) const TENSOR_LEAST_BYTES: u64 = 8 + 4 + 4 + 8;

/// A tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GgufTensor {
    /// The name, unique within the file.
    pub name: String,
    /// The stored type of the elements.
    pub element: ElementType,
    /// The shape, outermost dimension first. Empty for a scalar.
    pub shape: Vec<u64>,
    /// The range of the file that contains the tensor.
    pub stored: Range<u64>,
    /// How the stored bytes become values.
    pub coding: ElementCoding,
    len_bytes: u64,
}

impl GgufTensor {
    /// Returns the length of the decoded tensor in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }
}

/// A tensor's entry in the header.
pub(super) struct Listed<'a> {
    pub name: &'a str,
    /// The offset of the entry in the file.
    pub at: u64,
    element: ElementType,
    shape: Vec<u64>,
    /// The number of elements.
    count: u64,
    /// The offset from the start of the data.
    offset_bytes: u64,
}

impl<'a> Listed<'a> {
    /// Reads an entry, and checks its shape and its type.
    pub fn read(reader: &mut FieldReader<'a>) -> Read<Self> {
        let at = reader.position();
        let name = reader.text("a tensor name", Rule::GgufName)?;
        let refuse = |rule, detail| Error::malformed(rule, detail).at(at).tensor(name);
        let rank = reader.u32("the number of dimensions")?;
        if rank > DIMENSIONS {
            let detail = format!("it has {rank} dimensions; at most {DIMENSIONS} are allowed");
            return Err(refuse(Rule::GgufDims, detail).into());
        }
        // Files list the fastest dimension first.
        let mut shape = Vec::new();
        for _ in 0..rank {
            shape.push(reader.u64("a dimension")?);
        }
        let row = shape.first().copied().unwrap_or(1);
        shape.reverse();
        let number = reader.u32("the type of the elements")?;
        let offset_bytes = reader.u64("the offset of a tensor")?;
        let element = ElementType::from_number(number).ok_or_else(|| {
            let detail = format!(
                "its elements have type {number}, which is unknown or was removed from the \
                 format, so its length is unknown"
            );
            refuse(Rule::GgufType, detail)
        })?;
        let count = element_count(&shape).ok_or_else(|| {
            let detail = format!("its shape {shape:?} has more than 2^63 - 1 elements");
            refuse(Rule::GgufShape, detail)
        })?;
        let value_bytes = element.dtype().bits() / 8;
        if count
            .checked_mul(value_bytes)
            .is_none_or(|bytes| bytes > SIZE)
        {
            let detail = format!("its {count} elements have more than 2^63 - 1 bytes");
            return Err(refuse(Rule::GgufShape, detail).into());
        }
        if !row.is_multiple_of(element.block_elements()) {
            let detail = format!(
                "a row has {row} elements, which is not a multiple of the {} elements in a block \
                 of {}",
                element.block_elements(),
                element.name()
            );
            return Err(refuse(Rule::GgufRow, detail).into());
        }
        Ok(Self {
            name,
            at,
            element,
            shape,
            count,
            offset_bytes,
        })
    }

    /// Returns the tensor with its place in a file whose data are the range
    /// `data`.
    fn place(self, order: ByteOrder, data: &Range<u64>, alignment: u64) -> Result<GgufTensor> {
        let refuse = |rule, detail| Error::malformed(rule, detail).at(self.at).tensor(self.name);
        let Self { offset_bytes, .. } = self;
        if !offset_bytes.is_multiple_of(alignment) {
            let detail =
                format!("its offset {offset_bytes} is not a multiple of the alignment {alignment}");
            return Err(refuse(Rule::GgufOffset, detail));
        }
        let start = data.start.checked_add(offset_bytes);
        let Some(start) = start.filter(|start| *start <= data.end) else {
            let detail = format!("its offset {offset_bytes} is past the end of the file");
            return Err(refuse(Rule::GgufOffset, detail));
        };
        // The block length is at most the length of its values, so neither
        // product exceeds the limit that `read` has checked.
        let stored_bytes = self.count / self.element.block_elements() * self.element.block_bytes();
        if stored_bytes > data.end - start {
            let detail = format!(
                "it has {stored_bytes} bytes at {start}, and the file ends at {}",
                data.end
            );
            return Err(refuse(Rule::GgufData, detail));
        }
        Ok(GgufTensor {
            name: self.name.into(),
            element: self.element,
            coding: self.element.coding(order),
            shape: self.shape,
            stored: start..start + stored_bytes,
            len_bytes: self.count * (self.element.dtype().bits() / 8),
        })
    }
}

/// Returns the tensors with their places in a file of `file_len_bytes` whose
/// header ends at `header_end`.
///
/// # Errors
/// If a tensor leaves the file, is not aligned, or overlaps another one.
pub(super) fn place(
    listed: Vec<Listed>,
    order: ByteOrder,
    header_end: u64,
    file_len_bytes: u64,
    alignment: u64,
) -> Result<Vec<GgufTensor>> {
    // Files without data may end without the padding after the header.
    let data_start = header_end.next_multiple_of(alignment);
    let data = data_start..file_len_bytes.max(data_start);
    let mut tensors = Vec::new();
    for tensor in listed {
        let mut tensor = tensor.place(order, &data, alignment)?;
        // Without that padding, the data would begin past the end of the file, and
        // so would an empty tensor.
        if tensor.stored.is_empty() {
            let start = tensor.stored.start.min(file_len_bytes);
            tensor.stored = start..start;
        }
        tensors.push(tensor);
    }
    check_overlaps(&tensors)?;
    Ok(tensors)
}

fn check_overlaps(tensors: &[GgufTensor]) -> Result<()> {
    let filled = || tensors.iter().filter(|tensor| !tensor.stored.is_empty());
    let order = sort::by_key(filled().map(|tensor| (tensor.stored.start, tensor.stored.end)));
    let filled: Vec<_> = filled().collect();
    for pair in order.windows(2) {
        let [before, after] = [filled[pair[0]], filled[pair[1]]];
        if after.stored.start < before.stored.end {
            let detail = format!("it overlaps the tensor `{}`", before.name);
            let error = Error::malformed(Rule::GgufOverlap, detail).at(after.stored.start);
            return Err(error.tensor(&after.name));
        }
    }
    Ok(())
}
