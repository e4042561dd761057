//! Parser and decoder of a frame. The parser checks everything that can be
//! checked without decoding.

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;

use super::stream::Stream;
use super::{MAGIC, VERSION};
use crate::bytes::Cursor;
use crate::engine::Engine;
use crate::frame::family::FrameFamily;
use crate::frame::info::{FrameInfo, body_len};
use crate::frame::numpy::{Extras, dtype, float_format};
use crate::transform::{FloatFormat, bitpack, byteplane};
use crate::{Error, Result, Rule};

/// The way the buffer is split into streams (11.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transform {
    /// A single stream, which is the buffer itself. The number is the element
    /// size in bytes, which decoding ignores.
    Raw(u8),
    /// One stream per byte of an element, which has the given number of bytes.
    BytePlane(u8),
    /// Signs, exponents, and mantissas in whole bytes.
    BitField(FloatFormat),
    /// Signs, exponents, and mantissas packed bit by bit.
    BitPack(FloatFormat),
}

impl Transform {
    fn read(id: u8, width: u8, format: &str) -> Result<Self> {
        let float = || {
            FloatFormat::by_name(format.as_bytes()).ok_or_else(|| {
                let detail = format!("float format \"{format}\" does not exist in auto frames");
                Error::malformed(Rule::FrameFloatFormat, detail).at(10)
            })
        };
        match id {
            0 => Ok(Self::Raw(width)),
            1 if width == 0 => {
                let detail = "a byte-plane frame with elements of no bytes";
                Err(Error::malformed(Rule::FrameWidth, detail).at(7))
            }
            1 => Ok(Self::BytePlane(width)),
            2 => float().map(Self::BitField),
            3 => float().map(Self::BitPack),
            _ => {
                let detail = format!("transform {id} does not exist in auto frames");
                Err(Error::malformed(Rule::FrameTransform, detail).at(6))
            }
        }
    }

    /// Returns the number of streams.
    #[must_use]
    pub fn streams(self) -> u8 {
        match self {
            Self::Raw(_) => 1,
            Self::BytePlane(width) => width,
            Self::BitField(_) | Self::BitPack(_) => 3,
        }
    }
}

/// A parsed frame whose fields are consistent.
#[derive(Debug, Clone)]
pub struct Frame<'a> {
    transform: Transform,
    streams: Vec<Stream<'a>>,
    info: FrameInfo<'a>,
}

impl<'a> FrameFamily<'a> for Frame<'a> {
    /// All decoded streams. Brotli streams cannot be checked without decoding,
    /// so every stream is decoded before the output is allocated.
    type Streams = Vec<Cow<'a, [u8]>>;

    fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        cursor.expect_magic(MAGIC, Rule::FrameMagic, "ZARA frame")?;
        cursor.expect_version(VERSION, Rule::FrameVersion, "ZARA frame")?;
        let flags = cursor.u8("frame flags")?;
        let transform_id = cursor.u8("transform")?;
        let width = cursor.u8("element width")?;
        let count = cursor.u8("stream count")?;
        let format = float_format(&mut cursor)?;
        let transform = Transform::read(transform_id, width, format)?;
        let elements = cursor.u64("element count")?;
        let dtype = dtype(&mut cursor)?;
        let extras = Extras::after_dtype(&mut cursor, flags, dtype)?;
        if count != transform.streams() {
            let expected = transform.streams();
            let detail = format!("{count} streams in an auto frame that has {expected}");
            return Err(Error::malformed(Rule::FramePlaneCount, detail).at(8));
        }
        let streams = (0..count)
            .map(|_| Stream::parse(&mut cursor))
            .collect::<Result<Vec<_>>>()?;
        let lens: Vec<u64> = streams.iter().map(Stream::len_bytes).collect();
        let (items, item_bytes) = items(transform, &lens, elements)?;
        Ok(Self {
            transform,
            streams,
            info: FrameInfo::new(extras, cursor.position(), body_len(items, item_bytes)?)?,
        })
    }

    fn info(&self) -> &FrameInfo<'a> {
        &self.info
    }

    fn streams<E: Engine>(&self, engine: &E) -> Result<Self::Streams> {
        let streams: Vec<&Stream> = self.streams.iter().collect();
        engine
            .map(streams, |stream| stream.decode(engine))
            .into_iter()
            .collect()
    }

    fn join<E: Engine>(&self, _: &E, streams: Self::Streams, body: &mut [u8]) -> Result<()> {
        match self.transform {
            Transform::Raw(_) | Transform::BytePlane(_) => {
                let views: Vec<&[u8]> = streams.iter().map(AsRef::as_ref).collect();
                byteplane::join(&views, body);
                Ok(())
            }
            Transform::BitField(format) => format.join(
                &format.fields([&streams[0], &streams[1], &streams[2]]),
                body,
            ),
            Transform::BitPack(format) => {
                let n = body.len() / format.item_bytes;
                let mantissas = bitpack::unpack(format, &streams[2], n)?;
                format.join(&format.fields([&streams[0], &streams[1], &mantissas]), body)
            }
        }
    }
}

impl Frame<'_> {
    /// Returns the transform that split the buffer into streams.
    #[must_use]
    pub fn transform(&self) -> Transform {
        self.transform
    }
}

/// Returns the number of items that the streams hold together and the size of
/// an item in bytes. For a raw stream the items are bytes.
fn items(transform: Transform, lens: &[u64], elements: u64) -> Result<(u64, u64)> {
    let unfit = || {
        Error::malformed(
            Rule::FramePlaneLength,
            "the lengths of the streams contradict each other",
        )
    };
    let first = lens[0];
    match transform {
        Transform::Raw(_) => Ok((first, 1)),
        Transform::BytePlane(width) => match lens.iter().all(|&len| len == first) {
            true => Ok((first, width.into())),
            false => Err(unfit()),
        },
        Transform::BitField(format) | Transform::BitPack(format) => {
            let mantissas = match transform {
                Transform::BitPack(_) => bitpack::packed_len(format, elements),
                _ => elements.checked_mul(format.mantissa_bytes() as u64),
            };
            let fits = lens[..2] == [elements.div_ceil(8), elements] && mantissas == Some(lens[2]);
            match fits {
                true => Ok((elements, format.item_bytes as u64)),
                false => Err(unfit()),
            }
        }
    }
}
