//! The decoder of one frame family, and the fields that the frames of every
//! family have: lengths, the tail after the last whole element, and the optional
//! description of a NumPy array, which decoding ignores
//! (docs/formats/z4ai-frames.md 3.5 and 14.2).

use alloc::format;
use alloc::vec::Vec;

use crate::bytes::{self, Cursor};
use crate::engine::Engine;
use crate::{Error, Result, Rule};

/// The decoder of one frame family.
pub trait FrameFamily<'a>: Sized {
    /// The streams that are decoded before the output buffer is allocated, so
    /// that a frame with a damaged stream never causes that allocation.
    type Streams;

    /// Parses the frame at the start of `bytes` and checks everything that can
    /// be checked without decoding. Other data may follow the frame. Offsets in
    /// errors count from the start of `bytes`.
    fn parse(bytes: &'a [u8]) -> Result<Self>;

    /// Returns the fields that every family has: NumPy description, tail,
    /// stored length and decoded length.
    fn info(&self) -> &FrameInfo<'a>;

    /// Decodes the streams that [`FrameFamily::join`] needs.
    fn streams<E: Engine>(&self, engine: &E) -> Result<Self::Streams>;

    /// Fills `body`, which is the content without its tail.
    fn join<E: Engine>(&self, engine: &E, streams: Self::Streams, body: &mut [u8]) -> Result<()>;

    /// Decodes into `out`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind) if the length of `out`
    /// differs from the decoded length, and errors for damage that `parse`
    /// could not detect.
    fn decode<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
        let body = self.info().start(out)?;
        self.join(engine, self.streams(engine)?, body)
    }

    /// Decodes into a new buffer.
    fn decompress<E: Engine>(&self, engine: &E) -> Result<Vec<u8>> {
        let streams = self.streams(engine)?;
        let mut out = bytes::buffer(self.info().decoded_len_bytes())?;
        let body = self.info().start(&mut out)?;
        self.join(engine, streams, body)?;
        Ok(out)
    }
}

/// The fields that every frame family has.
#[derive(Debug, Clone)]
pub struct FrameInfo<'a> {
    numpy: Option<NumPy<'a>>,
    tail: &'a [u8],
    stored_len: usize,
    decoded_len_bytes: u64,
}

impl<'a> FrameInfo<'a> {
    /// Describes a frame of `stored_len` bytes whose body, which is the content
    /// without its tail, has `body_len_bytes` bytes.
    pub(super) fn new(extras: Extras<'a>, stored_len: usize, body_len_bytes: u64) -> Result<Self> {
        let Extras { numpy, tail } = extras;
        Ok(Self {
            numpy,
            tail,
            stored_len,
            decoded_len_bytes: decoded_len(body_len_bytes, 1, tail)?,
        })
    }

    /// Copies the tail to the end of `out` and returns the bytes before it,
    /// which the caller fills.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind) if the length of `out`
    /// differs from the decoded length.
    pub(super) fn start<'o>(&self, out: &'o mut [u8]) -> Result<&'o mut [u8]> {
        if out.len() as u64 != self.decoded_len_bytes {
            return Err(Error::invalid_input(
                "the buffer is not as long as the frame's content",
            ));
        }
        let (body, tail) = out.split_at_mut(out.len() - self.tail.len());
        tail.copy_from_slice(self.tail);
        Ok(body)
    }

    /// Returns NumPy's description of the array, if the frame has one.
    #[must_use]
    pub fn numpy(&self) -> Option<&NumPy<'a>> {
        self.numpy.as_ref()
    }

    /// Returns the bytes after the last whole element.
    #[must_use]
    pub fn tail(&self) -> &'a [u8] {
        self.tail
    }

    /// Returns the length of the frame in bytes.
    #[must_use]
    pub fn stored_len(&self) -> usize {
        self.stored_len
    }

    /// Returns the length of the decoded content in bytes.
    #[must_use]
    pub fn decoded_len_bytes(&self) -> u64 {
        self.decoded_len_bytes
    }
}

/// Returns the length of `elements` elements in bytes.
pub(super) fn body_len(elements: u64, item_bytes: u64) -> Result<u64> {
    decoded_len(elements, item_bytes, &[])
}

/// Returns the length of `elements` elements followed by `tail`, in bytes.
pub(crate) fn decoded_len(elements: u64, item_bytes: u64, tail: &[u8]) -> Result<u64> {
    elements
        .checked_mul(item_bytes)
        .and_then(|body| body.checked_add(tail.len() as u64))
        .ok_or_else(|| {
            Error::malformed(
                Rule::FramePlaneLength,
                "the frame decodes to over 2^64 bytes",
            )
        })
}

/// The flag bit, in every family, that marks the array description as valid.
pub(super) const FLAG: u8 = 1;

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
    pub(crate) fn after_their_lengths(cursor: &mut Cursor<'a>, flags: u8) -> Result<Self> {
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
    pub(crate) fn after_dtype(cursor: &mut Cursor<'a>, flags: u8, dtype: &'a str) -> Result<Self> {
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

/// Reads the length of each dimension.
fn shape(cursor: &mut Cursor, dimensions: u8) -> Result<Vec<u64>> {
    (0..dimensions).map(|_| cursor.u64("shape")).collect()
}
