//! Encodes a buffer into a frame with a given transform and given codecs.

use alloc::borrow::Cow;
use alloc::vec;
use alloc::vec::Vec;

use super::stream::RANS;
use super::{MAGIC, Transform, VERSION};
use crate::engine::{PackEngine, ZstdCoding};
use crate::entropy::rans;
use crate::frame::stream::{STORE, ZSTD, write};
use crate::transform::{FloatFormat, bitpack, byteplane};

#[cfg(feature = "brotli-encoder")]
use super::stream::{BROTLI, BROTLI_BLOCKS};
#[cfg(feature = "brotli-encoder")]
use crate::entropy::brotli;

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
    transform: Transform,
    codecs: &[StreamCodec],
) -> Vec<u8> {
    encode_by(engine, tensor, transform, |_| codecs.to_vec())
}

/// Encodes like [`encode`], with codecs that depend on the stream's content.
#[must_use]
pub fn encode_by<E: PackEngine>(
    engine: &E,
    tensor: &[u8],
    transform: Transform,
    codecs: impl Fn(&[u8]) -> Vec<StreamCodec> + Sync + Send,
) -> Vec<u8> {
    let (id, width, item_bytes, format) = match transform {
        Transform::Raw(width) => (0, width, 1, None),
        Transform::BytePlane(width) => (1, width, width.into(), None),
        Transform::BitField(format) => (2, low(format.item_bytes), format.item_bytes, Some(format)),
        Transform::BitPack(format) => (3, low(format.item_bytes), format.item_bytes, Some(format)),
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

fn extract(body: &[u8], transform: Transform, number: usize) -> Cow<'_, [u8]> {
    let field = |format: FloatFormat| {
        let mut out = vec![0; format.plane_lens(body.len() / format.item_bytes)[number]];
        format.split(body, number, 0, &mut out);
        out
    };
    match transform {
        Transform::Raw(_) => Cow::Borrowed(body),
        Transform::BytePlane(width) => {
            let mut out = vec![0; body.len() / usize::from(width)];
            byteplane::split(body, width.into(), number, 0, &mut out);
            Cow::Owned(out)
        }
        Transform::BitPack(format) if number == 2 => {
            Cow::Owned(bitpack::pack(format, &field(format)))
        }
        Transform::BitField(format) | Transform::BitPack(format) => Cow::Owned(field(format)),
    }
}

/// Returns `value` as a byte. Callers pass element widths and name lengths,
/// which are below 256.
fn low(value: usize) -> u8 {
    value.to_le_bytes()[0]
}
