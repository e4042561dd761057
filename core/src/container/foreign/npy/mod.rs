//! NumPy arrays, `.npy` (docs/formats/npy.md). Versions 1 to 3 can be read.
//!
//! ```text
//! magic, version, length of the header
//! header   a Python dict: dtype, order and shape
//! data     the elements
//! ```

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::NPY_MAGIC;
pub use super::element_coding::ElementCoding;
use super::strided::{fortran_strides, gather};
use crate::bytes::{self, Cursor};
use crate::dtype::Dtype;
use crate::limits::NPY_HEADER_LEN_BYTES;
use crate::tensor::element_count;
use crate::{Error, Result, Rule};

mod dict;

/// An array, as its header describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NpyArray {
    /// The element type.
    pub dtype: Dtype,
    /// The shape, outermost dimension first. Empty for a scalar.
    pub shape: Vec<u64>,
    /// The order of the elements and of their bytes.
    pub layout: NpyLayout,
}

/// The order of the stored elements and of their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NpyLayout {
    /// The order of the bytes of an element.
    pub coding: ElementCoding,
    /// The length of a stored element in bytes. It is longer than an element of the
    /// dtype if each stored element becomes a last dimension of its bytes.
    pub stored_bytes: usize,
    /// True if the first dimension is the fastest one.
    pub is_fortran: bool,
}

fn refuse(detail: impl Into<Cow<'static, str>>, at: u64) -> Error {
    Error::malformed(Rule::NpyHeader, detail).at(at)
}

/// Returns the number of bytes before the data of a file of `file_len_bytes`,
/// given its first 12 bytes or more, or the whole file if it is shorter.
///
/// # Errors
/// [`Rule::NpyHeader`] if the header leaves the file or its version is unknown.
pub fn header_len_bytes(head: &[u8], file_len_bytes: u64) -> Result<u64> {
    let mut cursor = Cursor::new(head);
    let cut = |_| refuse("the file ends inside its header", 0);
    if cursor
        .take(NPY_MAGIC.len() as u64, "the magic")
        .map_err(cut)?
        != NPY_MAGIC
    {
        return Err(refuse("not a NumPy array", 0));
    }
    let [major, _minor] = cursor.array("the version").map_err(cut)?;
    let len_bytes: u64 = match major {
        1 => cursor.u16("the length").map_err(cut)?.into(),
        2 | 3 => cursor.u32("the length").map_err(cut)?.into(),
        other => {
            let detail = format!("version {other} of a NumPy array; versions 1 to 3 are known");
            return Err(refuse(detail, 6));
        }
    };
    if len_bytes > NPY_HEADER_LEN_BYTES {
        let detail =
            format!("the header has {len_bytes} bytes; at most {NPY_HEADER_LEN_BYTES} are read");
        return Err(Error::limit(detail).at(8));
    }
    let end = cursor.position() as u64 + len_bytes;
    if end > file_len_bytes {
        let detail = format!("the header ends at {end}, after the end of the file");
        return Err(refuse(detail, 8));
    }
    Ok(end)
}

impl NpyArray {
    /// Parses `header`, the bytes before the data of a file of
    /// `file_len_bytes`, and compares the length of the data with the shape.
    pub fn parse(header: &[u8], file_len_bytes: u64) -> Result<Self> {
        let end = header_len_bytes(header, file_len_bytes)?;
        let start = if header.get(6) == Some(&1) { 10 } else { 12 };
        let text = header.get(start..).unwrap_or_default();
        let dict = dict::parse(text).map_err(|error| error.within(start as u64))?;
        let (dtype, coding, last) = element(dict.descr)?;
        let mut shape = dict.shape;
        shape.extend(last);
        let width = dtype.bits() / 8;
        let expected = element_count(&shape).and_then(|count| count.checked_mul(width));
        let len_bytes = file_len_bytes - end;
        if expected != Some(len_bytes) {
            let detail = format!(
                "the data have {len_bytes} bytes, which is not the length of {shape:?} elements of \
                 {width} bytes"
            );
            return Err(Error::malformed(Rule::NpyLength, detail).at(end));
        }
        Ok(Self {
            dtype,
            shape,
            layout: NpyLayout {
                coding,
                stored_bytes: bytes::index(width * last.unwrap_or(1)),
                is_fortran: dict.is_fortran,
            },
        })
    }
}

/// Returns the dtype of a `descr`, its coding, and the last dimension that a
/// dtype of bytes adds.
fn element(descr: &str) -> Result<(Dtype, ElementCoding, Option<u64>)> {
    let unknown = || {
        let descr = descr.escape_default();
        refuse(format!("the dtype `{descr}` cannot be converted"), 0)
    };
    let mut characters = descr.chars();
    let order = characters.next().ok_or_else(unknown)?;
    let (dtype, swapped_width) = match characters.as_str() {
        "b1" => (Dtype::Bool, 1),
        "i1" => (Dtype::I8, 1),
        "u1" => (Dtype::U8, 1),
        "i2" => (Dtype::I16, 2),
        "u2" => (Dtype::U16, 2),
        "f2" => (Dtype::F16, 2),
        "i4" => (Dtype::I32, 4),
        "u4" => (Dtype::U32, 4),
        "f4" => (Dtype::F32, 4),
        // Each half of a complex number is swapped by itself.
        "c8" => (Dtype::C64, 4),
        "i8" => (Dtype::I64, 8),
        "u8" => (Dtype::U64, 8),
        "f8" => (Dtype::F64, 8),
        // `float8_e5m2` of `ml_dtypes` is the only float of 8 bits that NumPy writes as a float.
        "f1" => (Dtype::F8E5M2, 1),
        // Elements without a meaning, as which NumPy stores floats of 8 bits and bfloat16.
        "V1" if matches!(order, '<' | '>' | '=' | '|') => {
            return Ok((Dtype::U8, ElementCoding::Plain, None));
        }
        "V2" if matches!(order, '<' | '>' | '=' | '|') => {
            return Ok((Dtype::U8, ElementCoding::Plain, Some(2)));
        }
        _ => return Err(unknown()),
    };
    let coding = match (order, swapped_width) {
        ('<' | '=', _) | ('|' | '>', 1) => ElementCoding::Plain,
        ('>', width) => ElementCoding::Swapped(width),
        _ => return Err(unknown()),
    };
    Ok((dtype, coding, None))
}

impl NpyLayout {
    /// Returns the strides, in elements of the dtype, of an array that is not stored in
    /// row-major order.
    #[cfg(feature = "virtual-headers")]
    pub(crate) fn strides(self, dtype: Dtype, shape: &[u64]) -> Option<Vec<u64>> {
        // Each stored element may be a row of the last dimension.
        let (dimensions, row) = match shape {
            [dimensions @ .., last] if dtype.len_bytes() != Some(self.stored_bytes) => {
                (dimensions, Some(*last))
            }
            dimensions => (dimensions, None),
        };
        let long = dimensions.iter().filter(|&&size| size != 1).count();
        if !self.is_fortran || long < 2 {
            return None;
        }
        let strides = fortran_strides(dimensions).into_iter();
        let in_elements = strides.map(|stride| stride.saturating_mul(row.unwrap_or(1)));
        Some(in_elements.chain(row.map(|_| 1)).collect())
    }

    /// Decodes the stored bytes of an array to little-endian, row-major values.
    /// Values that are stored so are borrowed.
    pub fn decode<'a>(
        self,
        dtype: Dtype,
        shape: &[u64],
        stored: &'a [u8],
    ) -> Result<Cow<'a, [u8]>> {
        let decoded = self.coding.decode(stored)?;
        let is_divided = dtype.len_bytes() != Some(self.stored_bytes);
        let dimensions = match shape {
            [dimensions @ .., _] if is_divided => dimensions,
            dimensions => dimensions,
        };
        let long = dimensions.iter().copied().filter(|&size| size != 1);
        let long: Vec<u64> = long.collect();
        if !self.is_fortran || long.len() < 2 {
            return Ok(decoded);
        }
        let strides = fortran_strides(&long);
        gather(&decoded, &long, &strides, self.stored_bytes).map(Cow::Owned)
    }
}
