//! What a frame made from a NumPy array says about that array
//! (docs/formats/z4ai-frames.md 3.5 and 14.2). Decoding ignores it.

use alloc::format;
use alloc::vec::Vec;

use crate::bytes::Cursor;
use crate::{Error, Result, Rule};

/// Flag bit of every family: the metadata are valid.
pub(super) const FLAG: u8 = 1;

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
    pub(super) fn flagged(flags: u8, dtype: &'a str, shape: Vec<u64>) -> Option<Self> {
        (flags & FLAG != 0).then_some(Self { dtype, shape })
    }

    /// Reads string and shape as sparse and palette frames have them, after
    /// both their lengths.
    pub(super) fn read(
        cursor: &mut Cursor<'a>,
        flags: u8,
        dtype_len: u8,
        dimensions: u8,
    ) -> Result<Option<Self>> {
        let dtype = ascii(cursor, dtype_len, "NumPy dtype")?;
        let shape = shape(cursor, dimensions)?;
        Ok(Self::flagged(flags, dtype, shape))
    }
}

/// A string of a frame, which is ASCII (13 rule 4).
pub(super) fn ascii<'a>(cursor: &mut Cursor<'a>, len: u8, what: &str) -> Result<&'a str> {
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
pub(super) fn shape(cursor: &mut Cursor, dimensions: u8) -> Result<Vec<u64>> {
    (0..dimensions).map(|_| cursor.u64("shape")).collect()
}
