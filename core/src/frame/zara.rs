//! Frame `ZARA` (docs/formats/z4ai-frames.md 11), which z4ai writes at its
//! higher efforts.

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use crate::bytes::{self, Cursor};
use crate::engine::{Engine, PackEngine, ZstdCoding};
use crate::entropy::{brotli, rans};
use crate::frame::family::{Extras, FrameFamily, FrameInfo, body_len, dtype, float_format};
use crate::frame::stored_or_zstd::{Record, STORE, Stream as Plain, ZSTD, write};
use crate::transform::{FloatFormat, bitpack, byteplane};
use crate::{Error, Result, Rule};

pub(super) const MAGIC: &[u8] = b"ZARA";
const VERSION: u8 = 1;

/// The way the buffer is split into streams (11.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZaraTransform {
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

impl ZaraTransform {
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
                let detail = "a byte-plane frame has elements of no bytes";
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
    transform: ZaraTransform,
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
        let transform = ZaraTransform::read(transform_id, width, format)?;
        let elements = cursor.u64("element count")?;
        let dtype = dtype(&mut cursor)?;
        let extras = Extras::after_dtype(&mut cursor, flags, dtype)?;
        if count != transform.streams() {
            let expected = transform.streams();
            let detail = format!("an auto frame has {count} streams instead of {expected}");
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
            ZaraTransform::Raw(_) | ZaraTransform::BytePlane(_) => {
                let views: Vec<&[u8]> = streams.iter().map(AsRef::as_ref).collect();
                byteplane::join(&views, body);
                Ok(())
            }
            ZaraTransform::BitField(format) => format.join(
                &format.fields([&streams[0], &streams[1], &streams[2]]),
                body,
            ),
            ZaraTransform::BitPack(format) => {
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
    pub fn transform(&self) -> ZaraTransform {
        self.transform
    }
}

/// Returns the number of items that the streams hold together and the size of
/// an item in bytes. For a raw stream the items are bytes.
fn items(transform: ZaraTransform, lens: &[u64], elements: u64) -> Result<(u64, u64)> {
    let unfit = || {
        Error::malformed(
            Rule::FramePlaneLength,
            "the lengths of the streams contradict each other",
        )
    };
    let first = lens[0];
    match transform {
        ZaraTransform::Raw(_) => Ok((first, 1)),
        ZaraTransform::BytePlane(width) => match lens.iter().all(|&len| len == first) {
            true => Ok((first, width.into())),
            false => Err(unfit()),
        },
        ZaraTransform::BitField(format) | ZaraTransform::BitPack(format) => {
            let mantissas = match transform {
                ZaraTransform::BitPack(_) => bitpack::packed_len(format, elements),
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

const BROTLI: u8 = 2;
const RANS: u8 = 3;
const BROTLI_BLOCKS: u8 = 4;

/// A stream whose payload has been checked as far as is possible without
/// decoding it.
#[derive(Debug, Clone)]
struct Stream<'a> {
    len_bytes: u64,
    coding: Coding<'a>,
}

#[derive(Debug, Clone)]
enum Coding<'a> {
    Plain(Plain<'a>),
    Brotli(&'a [u8]),
    Rans(rans::Shared<'a>),
    BrotliBlocks(brotli::Blocks<'a>),
}

impl<'a> Stream<'a> {
    pub fn parse(cursor: &mut Cursor<'a>) -> Result<Self> {
        let record = Record::parse(cursor)?;
        let (payload, len_bytes) = (record.payload, record.len_bytes);
        let within = |error: Error| error.within(record.payload_at);
        let coding = match record.method {
            STORE | ZSTD => Coding::Plain(Plain::parse(&record)?),
            BROTLI => Coding::Brotli(payload),
            RANS => Coding::Rans(rans::Shared::parse(payload, len_bytes).map_err(within)?),
            BROTLI_BLOCKS => {
                Coding::BrotliBlocks(brotli::Blocks::parse(payload, len_bytes).map_err(within)?)
            }
            _ => return Err(record.unknown_method()),
        };
        Ok(Self { len_bytes, coding })
    }

    /// Returns the decoded length that the record states. For brotli, only
    /// decoding shows whether it is correct.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns the decoded stream, which is borrowed if it is stored
    /// uncompressed.
    pub fn decode<E: Engine>(&self, engine: &E) -> Result<Cow<'a, [u8]>> {
        match &self.coding {
            Coding::Plain(stream) => stream.decode(engine),
            Coding::Brotli(payload) => brotli::decode(payload, self.len_bytes).map(Cow::Owned),
            Coding::Rans(stream) => {
                let mut out = bytes::buffer(self.len_bytes)?;
                stream.decode(engine, &mut out)?;
                Ok(Cow::Owned(out))
            }
            Coding::BrotliBlocks(blocks) => blocks.decode(engine).map(Cow::Owned),
        }
    }
}

/// A codec for one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamCodec {
    /// One zstd frame.
    Zstd(ZstdCoding),
    /// rANS of order 0 with one table.
    Rans,
    /// One brotli stream of the given quality, 0 to 11.
    #[cfg(feature = "brotli-encoder")]
    Brotli(u8),
    /// Independent brotli streams.
    #[cfg(feature = "brotli-encoder")]
    BrotliBlocks {
        /// Brotli quality, 0 to 11.
        quality: u8,
        /// Length of every block except the last, in bytes.
        block_bytes: u32,
    },
}

impl StreamCodec {
    fn encode<E: PackEngine>(self, engine: &E, raw: &[u8]) -> (u8, Vec<u8>) {
        match self {
            Self::Zstd(coding) => {
                let mut out = Vec::new();
                engine.zstd_encode(raw, coding, &mut out);
                (ZSTD, out)
            }
            Self::Rans => (RANS, rans::encode_shared(engine, raw)),
            #[cfg(feature = "brotli-encoder")]
            Self::Brotli(quality) => (BROTLI, brotli::encode(raw, quality)),
            #[cfg(feature = "brotli-encoder")]
            Self::BrotliBlocks {
                quality,
                block_bytes,
            } => (
                BROTLI_BLOCKS,
                brotli::encode_blocks(engine, raw, quality, block_bytes),
            ),
        }
    }
}

/// Encodes `tensor` into a frame. Each stream gets the smallest result among
/// `codecs`, or is stored if none makes it smaller.
#[must_use]
pub fn encode<E: PackEngine>(
    engine: &E,
    tensor: &[u8],
    transform: ZaraTransform,
    codecs: &[StreamCodec],
) -> Vec<u8> {
    encode_by(engine, tensor, transform, |_| codecs.to_vec())
}

/// Encodes like [`encode`], with codecs that depend on the stream's content.
#[must_use]
pub(crate) fn encode_by<E: PackEngine>(
    engine: &E,
    tensor: &[u8],
    transform: ZaraTransform,
    codecs: impl Fn(&[u8]) -> Vec<StreamCodec> + Sync + Send,
) -> Vec<u8> {
    let (id, width, item_bytes, format) = match transform {
        ZaraTransform::Raw(width) => (0, width, 1, None),
        ZaraTransform::BytePlane(width) => (1, width, width.into(), None),
        ZaraTransform::BitField(format) => {
            (2, low(format.item_bytes), format.item_bytes, Some(format))
        }
        ZaraTransform::BitPack(format) => {
            (3, low(format.item_bytes), format.item_bytes, Some(format))
        }
    };
    let count = tensor.len() / item_bytes;
    let (body, tail) = tensor.split_at(count * item_bytes);
    let name = format.map_or("", |format| format.name);
    let elements = format.map_or(0, |_| count as u64);

    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&[VERSION, 0, id, width, transform.streams(), low(name.len())]);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&elements.to_le_bytes());
    // An empty NumPy dtype and no dimensions.
    out.extend_from_slice(&[0, 0]);
    // The tail is shorter than an element, so its length fits in four bytes.
    out.extend_from_slice(&(tail.len() as u64).to_le_bytes()[..4]);
    out.extend_from_slice(tail);
    let coded = engine.map((0..transform.streams()).collect(), |number| {
        let raw = extract(body, transform, number.into());
        // No codec can make an empty stream smaller.
        let codecs = if raw.is_empty() {
            Vec::new()
        } else {
            codecs(&raw)
        };
        let coded = engine.map(codecs, |codec| codec.encode(engine, &raw));
        let (mut method, mut best) = (STORE, None::<Vec<u8>>);
        for (id, coded) in coded {
            if coded.len() < best.as_ref().map_or(raw.len(), Vec::len) {
                (method, best) = (id, Some(coded));
            }
        }
        let len = raw.len();
        (method, len, best.map_or(raw, Cow::Owned))
    });
    for (method, len, payload) in coded {
        write(&mut out, method, len, &payload);
    }
    out
}

fn extract(body: &[u8], transform: ZaraTransform, number: usize) -> Cow<'_, [u8]> {
    let field = |format: FloatFormat| {
        let mut out = vec![0; format.plane_lens(body.len() / format.item_bytes)[number]];
        format.split(body, number, 0, &mut out);
        out
    };
    match transform {
        ZaraTransform::Raw(_) => Cow::Borrowed(body),
        ZaraTransform::BytePlane(width) => {
            let mut out = vec![0; body.len() / usize::from(width)];
            byteplane::split(body, width.into(), number, 0, &mut out);
            Cow::Owned(out)
        }
        ZaraTransform::BitPack(format) if number == 2 => {
            Cow::Owned(bitpack::pack(format, &field(format)))
        }
        ZaraTransform::BitField(format) | ZaraTransform::BitPack(format) => {
            Cow::Owned(field(format))
        }
    }
}

/// Returns `value` as a byte. Callers pass element widths and name lengths,
/// which are below 256.
fn low(value: usize) -> u8 {
    value.to_le_bytes()[0]
}
