//! Frame `ZRT1` (docs/formats/z4ai-frames.md 9.2): the values of a sparse
//! frame, as one stream or as byte planes.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use alloc::{format, vec};

use super::family::{Extras, FrameFamily, FrameInfo};
use super::stored_or_zstd::{self, Record, Stream};
use crate::bytes::Cursor;
use crate::engine::{Engine, PackEngine, ZstdCoding};
use crate::transform::byteplane;
use crate::{Error, Result, Rule};

pub(super) const MAGIC: &[u8] = b"ZRT1";
const VERSION: u8 = 2;
const OPAQUE: u8 = 0;
const BYTE_PLANE: u8 = 1;

/// How the buffer is split into streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurboTransform {
    /// A single stream, which is the buffer itself.
    Opaque,
    /// One stream per byte of an element. The buffer must consist of whole
    /// elements.
    BytePlane,
}

/// A parsed frame whose fields are consistent.
#[derive(Debug, Clone)]
pub struct Frame<'a> {
    transform: TurboTransform,
    streams: Vec<Stream<'a>>,
    info: FrameInfo<'a>,
}

impl<'a> FrameFamily<'a> for Frame<'a> {
    type Streams = ();

    fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        cursor.expect_magic(MAGIC, Rule::FrameMagic, "ZRT1 frame")?;
        cursor.expect_version(VERSION, Rule::FrameVersion, "ZRT1 frame")?;
        let width = cursor.u8("element width")?;
        let len_bytes = cursor.u64("original length")?;
        let (transform, expected) = match cursor.u8("transform")? {
            OPAQUE => (TurboTransform::Opaque, 1),
            BYTE_PLANE if width > 0 => (TurboTransform::BytePlane, width),
            id => {
                let detail = format!("a turbo frame has transform {id} of width {width}");
                return Err(Error::malformed(Rule::FrameTransform, detail).at(14));
            }
        };
        let count = cursor.u8("stream count")?;
        if count != expected {
            let detail = format!("a turbo frame has {count} streams instead of {expected}");
            return Err(Error::malformed(Rule::FramePlaneCount, detail).at(15));
        }
        let streams = (0..count)
            .map(|_| Stream::parse(&Record::parse(&mut cursor)?))
            .collect::<Result<Vec<_>>>()?;
        let each = len_bytes / u64::from(count);
        let even = len_bytes.is_multiple_of(u64::from(count));
        if !even || streams.iter().any(|stream| stream.len_bytes() != each) {
            let detail = format!("the streams do not have {len_bytes} bytes together");
            return Err(Error::malformed(Rule::TurboLength, detail).at(6));
        }
        Ok(Self {
            transform,
            streams,
            info: FrameInfo::new(Extras::NONE, cursor.position(), len_bytes)?,
        })
    }

    fn info(&self) -> &FrameInfo<'a> {
        &self.info
    }

    fn streams<E: Engine>(&self, _: &E) -> Result<()> {
        Ok(())
    }

    fn join<E: Engine>(&self, engine: &E, (): (), out: &mut [u8]) -> Result<()> {
        if self.transform == TurboTransform::Opaque {
            return self.streams[0].decode_into(engine, out);
        }
        let planes = engine
            .map(self.streams.iter().collect(), |stream: &Stream| {
                stream.decode(engine)
            })
            .into_iter()
            .collect::<Result<Vec<_>>>()?;
        let views: Vec<&[u8]> = planes.iter().map(AsRef::as_ref).collect();
        byteplane::join(&views, out);
        Ok(())
    }
}

#[cfg(feature = "plan")]
impl<'a> Frame<'a> {
    /// Returns the coded streams: one with the whole content, or one for each byte of an
    /// element.
    pub(super) fn coded_streams(&self) -> &[Stream<'a>] {
        &self.streams
    }
}

/// Encodes `bytes`, whose elements are `width` bytes each, taking the smallest
/// result among `codings` for each stream. A buffer that is empty or does not
/// consist of whole elements becomes a single stream.
#[must_use]
pub fn encode<E: PackEngine>(
    engine: &E,
    bytes: &[u8],
    width: u8,
    transform: TurboTransform,
    codings: &[ZstdCoding],
) -> Vec<u8> {
    let item_bytes = usize::from(width).max(1);
    let whole = !bytes.is_empty() && bytes.len().is_multiple_of(item_bytes);
    let (id, streams) = match transform {
        TurboTransform::BytePlane if whole => (BYTE_PLANE, item_bytes),
        _ => (OPAQUE, 1),
    };
    let len = bytes.len() / streams;
    let coded = engine.map((0..streams).collect(), |plane| {
        let raw = if streams == 1 {
            Cow::Borrowed(bytes)
        } else {
            let mut raw = vec![0; len];
            byteplane::split(bytes, streams, plane, 0, &mut raw);
            Cow::Owned(raw)
        };
        stored_or_zstd::encode(engine, raw, codings)
    });
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&[VERSION, width]);
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.push(id);
    out.push(streams.to_le_bytes()[0]);
    for (method, payload) in coded {
        stored_or_zstd::write(&mut out, method, len, &payload);
    }
    out
}
