//! Arrays: a list of shape, dtype and bytes (docs/formats/msgpack.md 3 and 4).

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::value::Head;
use crate::container::foreign::shape::{SIZE, element_count};
use crate::dtype::Dtype;
use crate::limits::DIMENSIONS;
use crate::{Error, Result, Rule, bytes};

/// The greatest length in bytes of everything before the bytes of an array: the
/// sizes, each with at most 9 bytes, and the name of the dtype.
pub(super) const ARRAY_HEAD_BYTES: u64 = 4 << 10;

/// An array whose values are in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MsgpackArray {
    /// The type of the elements.
    pub dtype: Dtype,
    /// The shape, outermost dimension first. Empty for a scalar.
    pub shape: Vec<u64>,
    /// The ranges of the file that contain the values, in the order of the
    /// values. There is one, or one for each chunk.
    pub pieces: Vec<Range<u64>>,
    pub(super) count: u64,
}

fn refuse(rule: Rule, detail: impl Into<Cow<'static, str>>) -> Error {
    Error::malformed(rule, detail)
}

impl MsgpackArray {
    /// Returns the length of the values in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.pieces
            .iter()
            .map(|piece| piece.end - piece.start)
            .sum()
    }

    /// Parses an array at the range `place` of the file, of which `head` has the
    /// first bytes.
    pub(super) fn parse(head: &[u8], place: &Range<u64>) -> Result<Self> {
        let array = |detail: &'static str| refuse(Rule::MsgpackArray, detail);
        let mut reader = HeadReader { bytes: head, at: 0 };
        let Head::List(3) = reader.next()? else {
            return Err(array("an array is not a list of shape, dtype and bytes"));
        };
        let Head::List(rank) = reader.next()? else {
            return Err(array("the shape of an array is not a list"));
        };
        if rank > DIMENSIONS as u64 {
            return Err(Error::dimensions());
        }
        let mut shape = Vec::new();
        for _ in 0..rank {
            let size = reader.next()?.as_size();
            shape.push(size.ok_or_else(|| array("a size of an array is not a whole number"))?);
        }
        let name = reader.next()?;
        let name = match name {
            Head::Text(len) | Head::Bytes(len) => reader.take(len)?,
            _ => return Err(array("the dtype of an array is not a text")),
        };
        let dtype = dtype(name).ok_or_else(|| {
            let name = bytes_shown(name);
            refuse(
                Rule::MsgpackArray,
                format!("the dtype `{name}` cannot be read"),
            )
        })?;
        let (Head::Bytes(len_bytes) | Head::Text(len_bytes)) = reader.next()? else {
            return Err(array("the values of an array are not bytes"));
        };
        let start = place.start + reader.at;
        if place.end - start.min(place.end) != len_bytes {
            return Err(array("an array ends before or after its values"));
        }
        let width = dtype.bits() / 8;
        let count = element_count(&shape);
        let expected = count.and_then(|count| count.checked_mul(width));
        let Some(count) = count.filter(|_| expected == Some(len_bytes) && len_bytes <= SIZE) else {
            let detail = format!(
                "the values have {len_bytes} bytes, which is not the length of {shape:?} elements \
                 of {width} bytes"
            );
            return Err(refuse(Rule::MsgpackLength, detail));
        };
        Ok(Self {
            dtype,
            shape,
            pieces: core::iter::once(start..place.end).collect(),
            count,
        })
    }
}

/// Returns a text whose bytes need not be UTF-8.
fn bytes_shown(text: &[u8]) -> String {
    format!("{}", text.escape_ascii())
}

/// Reads the heads of values in the first bytes of an array.
struct HeadReader<'a> {
    bytes: &'a [u8],
    at: u64,
}

impl<'a> HeadReader<'a> {
    fn rest(&self) -> &'a [u8] {
        self.bytes.get(bytes::index(self.at)..).unwrap_or_default()
    }

    fn next(&mut self) -> Result<Head> {
        let read = Head::read(self.rest());
        let (head, len) = read.map_err(|error| match error.rule() {
            Some(Rule::Truncated) => refuse(Rule::MsgpackArray, "an array ends before its values"),
            _ => error,
        })?;
        self.at += len;
        Ok(head)
    }

    fn take(&mut self, len_bytes: u64) -> Result<&'a [u8]> {
        let len = usize::try_from(len_bytes).ok();
        let taken = len.and_then(|len| self.rest().get(..len));
        let taken =
            taken.ok_or_else(|| refuse(Rule::MsgpackArray, "an array ends before its values"))?;
        self.at += len_bytes;
        Ok(taken)
    }
}

/// Returns the dtype that NumPy and JAX call `name`.
fn dtype(name: &[u8]) -> Option<Dtype> {
    Some(match name {
        b"bool" => Dtype::Bool,
        b"int8" => Dtype::I8,
        b"uint8" => Dtype::U8,
        b"int16" => Dtype::I16,
        b"uint16" => Dtype::U16,
        b"int32" => Dtype::I32,
        b"uint32" => Dtype::U32,
        b"int64" => Dtype::I64,
        b"uint64" => Dtype::U64,
        b"float16" => Dtype::F16,
        b"bfloat16" => Dtype::Bf16,
        b"float32" => Dtype::F32,
        b"float64" => Dtype::F64,
        b"complex64" => Dtype::C64,
        b"float8_e4m3fn" => Dtype::F8E4M3,
        b"float8_e5m2" => Dtype::F8E5M2,
        b"float8_e4m3fnuz" => Dtype::F8E4M3Fnuz,
        b"float8_e5m2fnuz" => Dtype::F8E5M2Fnuz,
        b"float8_e8m0fnu" => Dtype::F8E8M0,
        _ => return None,
    })
}

/// The parts of an array in chunks that have been found so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Chunks {
    /// The sizes by the number of their dimension.
    pub shape: BTreeMap<u64, u64>,
    /// The chunks by their number.
    pub arrays: BTreeMap<u64, MsgpackArray>,
    /// The first part that cannot be read.
    pub refusal: Option<Error>,
}

impl Chunks {
    pub fn refuse(&mut self, error: Error) {
        self.refusal.get_or_insert(error);
    }

    /// Joins the chunks.
    ///
    /// # Errors
    /// [`Rule::MsgpackChunks`] if chunks are missing or do not fit each other.
    pub fn join(self) -> Result<MsgpackArray> {
        if let Some(refusal) = self.refusal {
            return Err(refusal);
        }
        let chunks = |detail| refuse(Rule::MsgpackChunks, detail);
        // Keys are the numbers from 0.
        let is_full =
            |keys: &mut dyn Iterator<Item = &u64>| keys.zip(0..).all(|(key, n)| *key == n);
        if !is_full(&mut self.shape.keys()) || !is_full(&mut self.arrays.keys()) {
            return Err(chunks("a chunk or a size of the array is missing"));
        }
        if self.shape.len() > DIMENSIONS {
            return Err(Error::dimensions());
        }
        let shape: Vec<u64> = self.shape.into_values().collect();
        let Some(first) = self.arrays.values().next() else {
            return Err(chunks("the array has no chunks"));
        };
        let dtype = first.dtype;
        if self.arrays.values().any(|chunk| chunk.dtype != dtype) {
            return Err(chunks("the chunks have different dtypes"));
        }
        let counts = self.arrays.values().map(|chunk| chunk.count);
        let count = counts.fold(0, u64::saturating_add);
        if element_count(&shape) != Some(count) {
            return Err(chunks("the chunks do not have the elements of the shape"));
        }
        let pieces = self.arrays.into_values().flat_map(|chunk| chunk.pieces);
        Ok(MsgpackArray {
            dtype,
            shape,
            pieces: pieces.collect(),
            count,
        })
    }
}
