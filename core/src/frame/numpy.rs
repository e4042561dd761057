//! What a frame made from a NumPy array says about that array
//! (docs/formats/z4ai-frames.md 3.5 and 14.2), which decoding ignores, and
//! the tail that follows it in every head.

use alloc::format;
use alloc::vec::Vec;

use crate::bytes::Cursor;
use crate::{Error, Result, Rule};

/// Flag bit of every family: the metadata are valid.
const FLAG: u8 = 1;

/// NumPy's description of the bytes, which come back as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumPy<'a> {
    /// NumPy's `dtype.str`.
    pub dtype: &'a str,
    /// Shape, outermost dimension first.
    pub shape: Vec<u64>,
}

impl<'a> NumPy<'a> {
    /// The description if `flags` call it valid.
    fn flagged(flags: u8, dtype: &'a str, shape: Vec<u64>) -> Option<Self> {
        (flags & FLAG != 0).then_some(Self { dtype, shape })
    }
}

/// What stands in a head besides the geometry: NumPy's description, and the
/// bytes at the end that make no whole element.
pub(super) struct Extras<'a> {
    pub numpy: Option<NumPy<'a>>,
    pub tail: &'a [u8],
}

impl<'a> Extras<'a> {
    /// As sparse and palette frames have them: first all lengths (9.1, 10).
    pub fn behind_their_lengths(cursor: &mut Cursor<'a>, flags: u8) -> Result<Self> {
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

    /// As `Z4AI` and auto frames have them: each length in front of what it
    /// counts; the dtype has been read (3.1, 11.1).
    pub fn behind_dtype(cursor: &mut Cursor<'a>, flags: u8, dtype: &'a str) -> Result<Self> {
        let dimensions = cursor.u8("dimension count")?;
        let shape = shape(cursor, dimensions)?;
        let tail_len = cursor.u32("tail length")?;
        Ok(Self {
            numpy: NumPy::flagged(flags, dtype, shape),
            tail: cursor.take(tail_len.into(), "tail")?,
        })
    }
}

/// NumPy's dtype behind its length.
pub(super) fn dtype<'a>(cursor: &mut Cursor<'a>) -> Result<&'a str> {
    let len = cursor.u8("NumPy dtype length")?;
    ascii(cursor, len, "NumPy dtype")
}

/// The name of a float format behind its length.
pub(super) fn float_format<'a>(cursor: &mut Cursor<'a>) -> Result<&'a str> {
    let len = cursor.u8("float format length")?;
    ascii(cursor, len, "float format")
}

/// A string of a frame, which is ASCII (13 rule 4).
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

/// The dimensions of an array.
fn shape(cursor: &mut Cursor, dimensions: u8) -> Result<Vec<u64>> {
    (0..dimensions).map(|_| cursor.u64("shape")).collect()
}
