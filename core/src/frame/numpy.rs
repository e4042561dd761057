//! The optional description of a NumPy array in a frame
//! (docs/formats/z4ai-frames.md 3.5 and 14.2), which decoding ignores, and the
//! tail that is stored after it in the head.

use alloc::format;
use alloc::vec::Vec;

use super::{Family, Frame};
use crate::bytes::Cursor;
use crate::{Error, Result, Rule};

/// The flag bit, in every family, that marks the array description as valid.
const FLAG: u8 = 1;

/// NumPy's description of the array. It does not affect the decoded bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumPy<'a> {
    /// The data type in the syntax of NumPy's `dtype.str`.
    pub dtype: &'a str,
    /// Shape, outermost dimension first.
    pub shape: Vec<u64>,
}

impl<'a> NumPy<'a> {
    /// Returns the description if `flags` marks it as valid.
    fn flagged(flags: u8, dtype: &'a str, shape: Vec<u64>) -> Option<Self> {
        (flags & FLAG != 0).then_some(Self { dtype, shape })
    }
}

/// The fields of a head other than the geometry: NumPy's description, and the
/// tail, which is the bytes after the last whole element.
pub(super) struct Extras<'a> {
    pub numpy: Option<NumPy<'a>>,
    pub tail: &'a [u8],
}

impl<'a> Extras<'a> {
    /// The extras of a frame without description and tail.
    pub const NONE: Self = Self {
        numpy: None,
        tail: &[],
    };

    /// Parses the layout of sparse and palette frames, where all lengths
    /// precede the values (9.1, 10).
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

    /// Parses the layout of `Z4AI` and `ZARA` frames, where each value follows
    /// its own length. The caller has already read the dtype (3.1, 11.1).
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

/// Reads the length of NumPy's dtype, then the dtype.
pub(super) fn dtype<'a>(cursor: &mut Cursor<'a>) -> Result<&'a str> {
    let len = cursor.u8("NumPy dtype length")?;
    ascii(cursor, len, "NumPy dtype")
}

/// Reads the length of the float format's name, then the name.
pub(super) fn float_format<'a>(cursor: &mut Cursor<'a>) -> Result<&'a str> {
    let len = cursor.u8("float format length")?;
    ascii(cursor, len, "float format")
}

/// Reads a string of `len` bytes, which must be ASCII (13 rule 4).
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

/// Returns a copy of `frame` with the description `array` added. The frame must
/// not have one yet. Only the families of standalone files
/// ([`Families::STANDALONE`](super::Families::STANDALONE)) have fields for it.
#[inline] // instantiated only in programs that call it, which are few
pub fn describe(frame: &[u8], array: &NumPy) -> Result<Vec<u8>> {
    let refuse = |detail: &str| Error::invalid_input(format!("the frame {detail}"));
    let parsed = Frame::parse(frame)?;
    // Offsets of the flags, of the dtype length and of the dimension count.
    let (flags_at, dtype_at, dimensions_at) = match Family::recognise(frame) {
        Some(Family::Z4ai) => (5, 9, 11 + usize::from(frame[10])),
        Some(Family::Auto) => {
            let after_format = 18 + usize::from(frame[9]);
            (5, after_format, after_format + 1)
        }
        Some(Family::Sparse) => (6, 28, 29),
        Some(Family::Palette) => (6, 24, 25),
        _ => return Err(refuse("cannot hold the description of an array")),
    };
    if parsed.numpy().is_some() || frame[dtype_at] != 0 || frame[dimensions_at] != 0 {
        return Err(refuse("describes an array already"));
    }
    let (Ok(dtype_len), Ok(dimensions), true) = (
        u8::try_from(array.dtype.len()),
        u8::try_from(array.shape.len()),
        array.dtype.is_ascii(),
    ) else {
        return Err(refuse(
            "cannot describe this array: its dtype or shape is too long",
        ));
    };
    let shape = array.shape.iter().flat_map(|length| length.to_le_bytes());
    let mut out = frame[..dtype_at].to_vec();
    out[flags_at] |= FLAG;
    out.push(dtype_len);
    let is_dtype_first = match parsed {
        Frame::Z4ai(_) => true,
        #[cfg(feature = "standalone-frames")]
        Frame::Auto(_) => true,
        _ => false,
    };
    if is_dtype_first {
        out.extend_from_slice(array.dtype.as_bytes());
        out.extend_from_slice(&frame[dtype_at + 1..dimensions_at]);
        out.push(dimensions);
    } else {
        out.push(dimensions);
        out.extend_from_slice(array.dtype.as_bytes());
    }
    out.extend(shape);
    out.extend_from_slice(&frame[dimensions_at + 1..]);
    Ok(out)
}

/// Reads the length of each dimension.
fn shape(cursor: &mut Cursor, dimensions: u8) -> Result<Vec<u64>> {
    (0..dimensions).map(|_| cursor.u64("shape")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_read_back_and_decoding_ignores_them() {
        // An opaque frame of one stored byte (3.1).
        let mut frame = b"Z4AI\x01\0\0\x01\x01\0\0\0\0\0\0\0\0".to_vec();
        frame.extend_from_slice(&1u64.to_le_bytes());
        frame.extend_from_slice(&1u64.to_le_bytes());
        frame.push(7);
        let array = NumPy {
            dtype: "|u1",
            shape: [1, 1].into(),
        };
        let described = describe(&frame, &array).unwrap();
        let parsed = Frame::parse(&described).unwrap();
        assert_eq!(parsed.numpy(), Some(&array));
        assert_eq!(parsed.decoded_len_bytes(), 1);
        assert_eq!(parsed.stored_len(), described.len());
        // A second description is refused.
        assert!(describe(&described, &array).is_err());
    }
}
