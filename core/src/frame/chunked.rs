//! Frame `Z4AIMF01` (docs/formats/z4ai-frames.md 12): the input is divided into
//! chunks, and every chunk is stored as byte planes.

use alloc::borrow::Cow;
use alloc::vec;
use alloc::vec::Vec;

use super::family::{Extras, FrameFamily, FrameInfo, decoded_len};
use super::stored_or_zstd::{self, Record, Stream};
use crate::bytes::{self, Cursor};
use crate::engine::{Engine, PackEngine, ZstdCoding};
use crate::transform::byteplane;
use crate::{Error, Result, Rule};

pub(super) const MAGIC: &[u8] = b"Z4AIMF01";

/// A parsed frame whose fields are consistent.
#[derive(Debug, Clone)]
pub struct Frame<'a> {
    chunks: Vec<Chunk<'a>>,
    info: FrameInfo<'a>,
}

#[derive(Debug, Clone)]
struct Chunk<'a> {
    planes: Vec<Stream<'a>>,
    tail: &'a [u8],
    /// The decoded length of the chunk in bytes. The payloads of its planes
    /// have been checked to be long enough for it.
    len_bytes: u64,
}

impl<'a> Chunk<'a> {
    fn parse(cursor: &mut Cursor<'a>, width: u8) -> Result<Self> {
        let elements = u64::from(cursor.u32("chunk elements")?);
        let tail_len = cursor.u8("chunk tail length")?;
        let tail = cursor.take(tail_len.into(), "chunk tail")?;
        let planes = (0..width).map(|_| {
            let at = cursor.position() as u64;
            let method = cursor.u8("plane method")?;
            let payload_len = cursor.u32("plane payload length")?;
            Stream::parse(&Record {
                at,
                method,
                len_bytes: elements,
                payload_at: cursor.position() as u64,
                payload: cursor.take(payload_len.into(), "plane payload")?,
            })
        });
        Ok(Self {
            planes: planes.collect::<Result<_>>()?,
            tail,
            len_bytes: decoded_len(elements, width.into(), tail)?,
        })
    }

    fn decode<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
        let planes = self.planes.iter().map(|plane| plane.decode(engine));
        let planes = planes.collect::<Result<Vec<_>>>()?;
        let views: Vec<&[u8]> = planes.iter().map(AsRef::as_ref).collect();
        let (body, tail) = out.split_at_mut(out.len() - self.tail.len());
        byteplane::join(&views, body);
        tail.copy_from_slice(self.tail);
        Ok(())
    }
}

impl<'a> FrameFamily<'a> for Frame<'a> {
    type Streams = ();

    fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        cursor.expect_magic(MAGIC, Rule::FrameMagic, "Z4AIMF01 frame")?;
        cursor.u8("frame flags")?;
        let width = cursor.u8("element width")?;
        if width == 0 {
            let detail = "a chunked frame has elements of no bytes";
            return Err(Error::malformed(Rule::FrameWidth, detail).at(9));
        }
        let count = cursor.u32("chunk count")?;
        let mut chunks = Vec::new();
        let mut total: u64 = 0;
        for _ in 0..count {
            let chunk = Chunk::parse(&mut cursor, width)?;
            total = total.checked_add(chunk.len_bytes).ok_or_else(|| {
                Error::malformed(Rule::FramePlaneLength, "the chunks exceed 64 bits")
            })?;
            chunks.push(chunk);
        }
        Ok(Self {
            chunks,
            info: FrameInfo::new(Extras::NONE, cursor.position(), total)?,
        })
    }

    fn info(&self) -> &FrameInfo<'a> {
        &self.info
    }

    fn streams<E: Engine>(&self, _: &E) -> Result<()> {
        Ok(())
    }

    fn join<E: Engine>(&self, engine: &E, (): (), out: &mut [u8]) -> Result<()> {
        let mut rest = out;
        let mut jobs = Vec::with_capacity(self.chunks.len());
        for chunk in &self.chunks {
            let (now, later) = rest.split_at_mut(bytes::index(chunk.len_bytes));
            rest = later;
            jobs.push((chunk, now));
        }
        engine
            .map(jobs, |(chunk, part)| chunk.decode(engine, part))
            .into_iter()
            .collect()
    }
}

/// Encodes `tensor`, whose elements are `width` bytes each, in chunks of about
/// `chunk_bytes` bytes. Each plane gets the smallest result among `codings`.
///
/// # Panics
/// If `width` is zero, a plane of a chunk reaches 2^32 bytes, or there would
/// be 2^32 chunks.
#[must_use]
pub fn encode<E: PackEngine>(
    engine: &E,
    tensor: &[u8],
    width: u8,
    chunk_bytes: u32,
    codings: &[ZstdCoding],
) -> Vec<u8> {
    let item_bytes = usize::from(width);
    let asked = usize::try_from(chunk_bytes).unwrap_or(usize::MAX);
    let step = (asked / item_bytes).max(1) * item_bytes;
    let chunks: Vec<&[u8]> = tensor.chunks(step).collect();
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&[0, width]);
    out.extend_from_slice(&field(chunks.len()));
    let coded = engine.map(chunks, |chunk| {
        let count = chunk.len() / item_bytes;
        let (body, tail) = chunk.split_at(count * item_bytes);
        let mut out = field(count).to_vec();
        // The tail is shorter than an element, so its length fits in one byte.
        out.push(tail.len().to_le_bytes()[0]);
        out.extend_from_slice(tail);
        for plane in 0..item_bytes {
            let mut raw = vec![0; count];
            byteplane::split(body, item_bytes, plane, 0, &mut raw);
            let (method, payload) = stored_or_zstd::encode(engine, Cow::Owned(raw), codings);
            out.push(method);
            out.extend_from_slice(&field(payload.len()));
            out.extend_from_slice(&payload);
        }
        out
    });
    for chunk in coded {
        out.extend_from_slice(&chunk);
    }
    out
}

fn field(value: usize) -> [u8; 4] {
    u32::try_from(value)
        .expect("chunks are below 2^32 bytes, and below 2^32 in number")
        .to_le_bytes()
}
