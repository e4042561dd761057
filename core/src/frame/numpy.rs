//! The description of a NumPy array in a frame made from one
//! (docs/formats/z4ai-frames.md 3.5 and 14.2), which decoding ignores, and the
//! tail that follows it in every head.

use alloc::format;
use alloc::vec::Vec;

use crate::bytes::Cursor;
use crate::{Error, Result, Rule};

/// Flag bit of every family: the metadata are valid.
const FLAG: u8 = 1;

/// NumPy's description of the array. Decoding returns the bytes unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumPy<'a> {
    /// NumPy's `dtype.str`.
    pub dtype: &'a str,
    /// Shape, outermost dimension first.
    pub shape: Vec<u64>,
}

impl<'a> NumPy<'a> {
    /// Returns the description if `flags` call it valid.
    fn flagged(flags: u8, dtype: &'a str, shape: Vec<u64>) -> Option<Self> {
        (flags & FLAG != 0).then_some(Self { dtype, shape })
    }
}

/// The parts of a head other than the geometry: NumPy's description, and the
/// bytes after the last whole element.
pub(super) struct Extras<'a> {
    pub numpy: Option<NumPy<'a>>,
    pub tail: &'a [u8],
}

impl<'a> Extras<'a> {
    /// Those of a frame whose head has neither.
    pub const NONE: Self = Self {
        numpy: None,
        tail: &[],
    };

    /// Parses them as sparse and palette frames store them: after all their
    /// lengths (9.1, 10).
    pub fn after_their_lengths(cursor: &mut Cursor<'a>, flags: u8) -> Result<Self> {
        let tail_len = cursor.u32("tail length")?;
        let dtype_len = cursor.u8("NumPy dtype length")?;
        let dimensions = cursor.u8("dimension count")?;
        let dtype = ascii(cursor, dtype_len, "NumPy dtype")?;
        let shape = shape(cursor, dimensions)?;
        Ok(Self {
            numpy: NumPy::flagged(flags, dtype, shape),
            tail: cursor.take(tail_len.into(), "tail")?,
        })
    }

    /// Parses them as `Z4AI` and auto frames store them: each after its length;
    /// the dtype has been read (3.1, 11.1).
    pub fn after_dtype(cursor: &mut Cursor<'a>, flags: u8, dtype: &'a str) -> Result<Self> {
        let dimensions = cursor.u8("dimension count")?;
        let shape = shape(cursor, dimensions)?;
        let tail_len = cursor.u32("tail length")?;
        Ok(Self {
            numpy: NumPy::flagged(flags, dtype, shape),
            tail: cursor.take(tail_len.into(), "tail")?,
        })
    }
}

/// Reads NumPy's dtype, which follows its length.
pub(super) fn dtype<'a>(cursor: &mut Cursor<'a>) -> Result<&'a str> {
    let len = cursor.u8("NumPy dtype length")?;
    ascii(cursor, len, "NumPy dtype")
}

/// Reads the name of a float format, which follows its length.
pub(super) fn float_format<'a>(cursor: &mut Cursor<'a>) -> Result<&'a str> {
    let len = cursor.u8("float format length")?;
    ascii(cursor, len, "float format")
}

/// Returns a string of a frame, which is ASCII (13 rule 4).
fn ascii<'a>(cursor: &mut Cursor<'a>, len: u8, what: &str) -> Result<&'a str> {
    let at = cursor.position() as u64;
    let bytes = cursor.take(len.into(), what)?;
    match core::str::from_utf8(bytes) {
        Ok(text) if text.is_ascii() => Ok(text),
        _ => {
            Err(Error::malformed(Rule::FrameAscii, format!("the {what} is not ASCII text")).at(at))
        }
    }
}

/// Returns the dimensions of an array.
fn shape(cursor: &mut Cursor, dimensions: u8) -> Result<Vec<u64>> {
    (0..dimensions).map(|_| cursor.u64("shape")).collect()
}
