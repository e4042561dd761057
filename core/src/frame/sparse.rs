//! Frame `ZSP1` (docs/formats/z4ai-frames.md 9.1), for buffers of mostly zeros.

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;

use super::family::{Extras, FrameFamily, FrameInfo, body_len};
use super::{stored_or_zstd, turbo};
use crate::bytes::{self, Cursor};
use crate::engine::{Engine, PackEngine, ZstdCoding};
use crate::entropy::zstd;
use crate::transform::sparse;
use crate::{Error, Result, Rule};

pub(super) const MAGIC: &[u8] = b"ZSP1";
const VERSION: u8 = 1;

/// A parsed frame whose fields are consistent.
#[derive(Debug, Clone)]
pub struct Frame<'a> {
    width: u8,
    elements: u64,
    nonzero: u64,
    bitmap: &'a [u8],
    values: Option<turbo::Frame<'a>>,
    info: FrameInfo<'a>,
}

impl<'a> FrameFamily<'a> for Frame<'a> {
    /// The decoded bitmap and the decoded values.
    type Streams = (Vec<u8>, Vec<u8>);

    fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        cursor.expect_magic(MAGIC, Rule::FrameMagic, "ZSP1 frame")?;
        cursor.expect_version(VERSION, Rule::FrameVersion, "ZSP1 frame")?;
        let width = cursor.u8("element width")?;
        if !matches!(width, 1 | 2 | 4 | 8) {
            let detail = format!("a sparse frame has elements of {width} bytes");
            return Err(Error::malformed(Rule::FrameWidth, detail).at(5));
        }
        let flags = cursor.u8("frame flags")?;
        cursor.u8("padding")?;
        let elements = cursor.u64("element count")?;
        let nonzero = cursor.u64("count of nonzero elements")?;
        let extras = Extras::after_their_lengths(&mut cursor, flags)?;
        let bitmap_len = cursor.u64("bitmap length")?;
        let bitmap_at = cursor.position() as u64;
        let bitmap = cursor.take(bitmap_len, "bitmap")?;
        if nonzero > elements {
            let detail = format!("{nonzero} of {elements} elements are not zero");
            return Err(Error::malformed(Rule::SparseCount, detail).at(16));
        }
        if (elements == 0) != bitmap.is_empty() {
            let detail = format!("the bitmap has {bitmap_len} bytes for {elements} elements");
            return Err(Error::malformed(Rule::FrameParts, detail).at(bitmap_at));
        }
        if elements > 0 {
            zstd::check_sized(bitmap, elements.div_ceil(8)).map_err(|e| e.within(bitmap_at))?;
        }
        let values_at = cursor.position();
        let values = (nonzero > 0)
            .then(|| values(&bytes[values_at..], nonzero, width))
            .transpose()
            .map_err(|e| e.within(values_at as u64))?;
        let values_len = values.as_ref().map_or(0, |frame| frame.info().stored_len());
        let body_len = body_len(elements, width.into())?;
        Ok(Self {
            width,
            elements,
            nonzero,
            bitmap,
            values,
            info: FrameInfo::new(extras, values_at + values_len, body_len)?,
        })
    }

    fn info(&self) -> &FrameInfo<'a> {
        &self.info
    }

    fn streams<E: Engine>(&self, engine: &E) -> Result<Self::Streams> {
        let mut bitmap = bytes::buffer(self.elements.div_ceil(8))?;
        if !bitmap.is_empty() {
            zstd::decode(engine, self.bitmap, &mut bitmap)?;
        }
        let count = sparse::count_values(&bitmap);
        if count != self.nonzero || sparse::padding_set(&bitmap, self.elements) {
            return Err(Error::malformed(
                Rule::SparseCount,
                format!(
                    "the bitmap has {count} bits for {} elements that are not zero",
                    self.nonzero
                ),
            ));
        }
        let values = match &self.values {
            Some(frame) => frame.decompress(engine)?,
            None => Vec::new(),
        };
        Ok((bitmap, values))
    }

    fn join<E: Engine>(
        &self,
        _: &E,
        (bitmap, values): Self::Streams,
        body: &mut [u8],
    ) -> Result<()> {
        sparse::join(&bitmap, &values, self.width.into(), body);
        Ok(())
    }
}

impl Frame<'_> {
    /// Returns the size of one element in bytes.
    #[must_use]
    pub fn width(&self) -> u8 {
        self.width
    }

    /// Returns the number of elements that are not zero.
    #[must_use]
    pub fn nonzero(&self) -> u64 {
        self.nonzero
    }

    /// Returns the number of elements.
    #[cfg(feature = "plan")]
    pub(super) fn elements(&self) -> u64 {
        self.elements
    }

    /// Returns the coded bitmap, a zstd frame, with its decoded length in bytes, and the
    /// frame of the values. There is no bitmap if there are no elements, and there are no
    /// values if all elements are zero.
    #[cfg(feature = "plan")]
    pub(super) fn coded(&self) -> ((&[u8], u64), Option<&turbo::Frame<'_>>) {
        let bitmap_bytes = self.elements.div_ceil(8);
        ((self.bitmap, bitmap_bytes), self.values.as_ref())
    }
}

fn values(bytes: &[u8], nonzero: u64, width: u8) -> Result<turbo::Frame<'_>> {
    let frame = turbo::Frame::parse(bytes)?;
    let len_bytes = frame.info().decoded_len_bytes();
    if nonzero.checked_mul(width.into()) != Some(len_bytes) {
        let detail = format!("{len_bytes} bytes of values for {nonzero} elements of {width} bytes");
        return Err(Error::malformed(Rule::SparseValues, detail).at(0));
    }
    Ok(frame)
}

/// Encodes `tensor`, whose elements are `width` bytes each. The values are
/// split into streams by `transform`; the bitmap and each stream get the
/// smallest result among `codings`.
///
/// # Panics
/// If `width` is not 1, 2, 4 or 8.
#[must_use]
pub fn encode<E: PackEngine>(
    engine: &E,
    tensor: &[u8],
    width: u8,
    transform: turbo::TurboTransform,
    codings: &[ZstdCoding],
) -> Vec<u8> {
    encode_streams(engine, tensor, width, transform, [codings, codings])
}

/// Encodes like [`encode`], with separate codings for the bitmap and for the
/// values.
///
/// # Panics
/// If `width` is not 1, 2, 4 or 8.
#[must_use]
pub(crate) fn encode_streams<E: PackEngine>(
    engine: &E,
    tensor: &[u8],
    width: u8,
    transform: turbo::TurboTransform,
    [bitmap_codings, value_codings]: [&[ZstdCoding]; 2],
) -> Vec<u8> {
    let item_bytes = usize::from(width);
    let count = tensor.len() / item_bytes;
    let (body, tail) = tensor.split_at(count * item_bytes);
    let (bitmap, values) = sparse::split(body, item_bytes);
    let bitmap = match count {
        0 => Cow::Borrowed(&[][..]),
        _ => Cow::Owned(stored_or_zstd::zstd_smallest(
            engine,
            &bitmap,
            bitmap_codings,
        )),
    };
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&[VERSION, width, 0, 0]);
    out.extend_from_slice(&(count as u64).to_le_bytes());
    out.extend_from_slice(&((values.len() / item_bytes) as u64).to_le_bytes());
    // The tail is shorter than an element, so its length fits in four bytes.
    out.extend_from_slice(&(tail.len() as u64).to_le_bytes()[..4]);
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(tail);
    out.extend_from_slice(&(bitmap.len() as u64).to_le_bytes());
    out.extend_from_slice(&bitmap);
    if !values.is_empty() {
        let values = turbo::encode(engine, &values, width, transform, value_codings);
        out.extend_from_slice(&values);
    }
    out
}
