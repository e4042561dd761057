//! rANS of order 1, plane method 5 (section 8): the preceding symbol selects
//! the table of each symbol.

use alloc::format;
use alloc::vec::Vec;

use super::state::Allowance;
use super::{check_counts, len_u32, part_lens, split, split_mut, take_chunks, write_lens};
use crate::bytes::{self, Cursor};
use crate::engine::{Engine, PackEngine, ZstdCoding};
use crate::entropy::zstd;
use crate::{Error, Result, Rule};

mod model;
mod segments;

use model::{Counts, Order1Model};
use segments::Chunk;

/// Number of bits of a probability of order 1.
const BITS: u32 = 12;
const SLOTS: usize = 1 << BITS;

const MAGIC: [u8; 2] = *b"R1";
const SEGMENTS: usize = 4;

/// The maximum plane length, which is limited by the 32-bit symbol count.
pub(crate) const MAX_SYMBOLS: u64 = u32::MAX as u64;

/// The minimum length of a chunk, if the encoder makes more than one.
const CHUNK_SYMBOLS: usize = 1 << 20;
const MAX_CHUNKS: usize = 64;

const MODEL_CODING: ZstdCoding = ZstdCoding::Search(12);

/// A parsed payload of method 5. Its packed model has not been checked.
#[derive(Debug, Clone)]
pub struct Order1<'a> {
    model: &'a [u8],
    model_bytes: u64,
    chunks: Vec<Chunk<'a>>,
}

impl<'a> Order1<'a> {
    /// Parses the head and all lengths, and checks that the segments can hold a
    /// plane of `len_bytes` bytes with the cheapest model.
    pub fn parse(payload: &'a [u8], len_bytes: u64) -> Result<Self> {
        let bad = |detail| Error::malformed(Rule::RansHead, detail);
        let mut cursor = Cursor::new(payload);
        if cursor.take(2, "rANS order-1 magic")? != MAGIC {
            return Err(bad("the magic of order-1 rANS is missing").at(0));
        }
        let segments = cursor.u8("rANS segment count")?;
        if usize::from(segments) != SEGMENTS {
            return Err(bad("order-1 rANS must have four segments in a chunk").at(2));
        }
        if cursor.u8("rANS padding")? != 0 {
            return Err(bad("padding of order-1 rANS is not zero").at(3));
        }
        let symbols = u64::from(cursor.u32("rANS symbol count")?);
        let model_len = cursor.u32("length of the rANS model")?;
        let chunk_count = u64::from(cursor.u16("rANS chunk count")?);
        if len_bytes == 0 {
            return if (symbols, model_len, chunk_count, cursor.remaining()) == (0, 0, 0, 0) {
                Ok(Self {
                    model: &[],
                    model_bytes: 0,
                    chunks: Vec::new(),
                })
            } else {
                Err(bad("bytes follow the head of an empty order-1 plane").at(4))
            };
        }
        check_counts(symbols, chunk_count, len_bytes).map_err(|e| e.at(4))?;
        let base = cursor.position() as u64;
        let model = cursor.take(model_len.into(), "rANS model")?;
        let model_bytes = check_model(model).map_err(|e| e.within(base))?;
        let lens = cursor.take(4 * chunk_count, "rANS chunk lengths")?;
        let base = cursor.position() as u64;
        let chunks = take_chunks(&mut cursor, lens, segments::HEAD_BYTES)?;
        let mut at = base;
        let chunks = chunks
            .into_iter()
            .map(|chunk| {
                let parsed = Chunk::parse(chunk).map_err(|e| e.within(at))?;
                at += chunk.len() as u64;
                Ok(parsed)
            })
            .collect::<Result<Vec<_>>>()?;
        let parsed = Self {
            model,
            model_bytes,
            chunks,
        };
        parsed.check_capacity(len_bytes, 1 << BITS)?;
        Ok(parsed)
    }

    /// Checks that the payload can hold a plane of `len_bytes` bytes. `most` is
    /// the largest frequency in any context.
    fn check_capacity(&self, len_bytes: u64, most: u32) -> Result<()> {
        let mut allowance = Allowance::new();
        for (chunk, symbols) in self
            .chunks
            .iter()
            .zip(part_lens(len_bytes, self.chunks.len() as u64))
        {
            chunk.check_capacity(symbols, most, &mut allowance)?;
        }
        Ok(())
    }

    /// Decodes into `out`, which must be as long as the plane.
    pub fn decode<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
        if self.chunks.is_empty() {
            return Ok(());
        }
        let mut raw = bytes::buffer(self.model_bytes)?;
        zstd::decode(engine, self.model, &mut raw)?;
        let model = Order1Model::parse(&raw)?;
        self.check_capacity(out.len() as u64, model.most())?;
        let contexts = model.contexts();
        let parts = split_mut(out, self.chunks.len());
        let jobs: Vec<_> = self.chunks.iter().zip(parts).collect();
        engine
            .map(jobs, |(chunk, part)| chunk.decode(&contexts, part))
            .into_iter()
            .collect()
    }
}

/// Checks the zstd frame of a packed model, and returns the decoded length,
/// which the frame must declare (section 8).
fn check_model(frame: &[u8]) -> Result<u64> {
    let Some(len_bytes) = zstd::content_bytes(frame)? else {
        return Err(Error::malformed(
            Rule::ZstdContentSize,
            "a rANS model does not declare its size",
        )
        .at(0));
    };
    if len_bytes > model::MAX_BYTES {
        return Err(Error::malformed(
            Rule::RansModel,
            format!(
                "a rANS model has {len_bytes} bytes, over {}",
                model::MAX_BYTES
            ),
        )
        .at(0));
    }
    zstd::check(frame, len_bytes)?;
    Ok(len_bytes)
}

/// Encodes a plane that is not empty.
///
/// # Panics
/// If the plane is empty or longer than [`MAX_SYMBOLS`].
#[must_use]
pub fn encode<E: PackEngine>(engine: &E, plane: &[u8]) -> Vec<u8> {
    assert!(!plane.is_empty(), "an empty plane is stored");
    let symbols = len_u32(plane);
    let chunk_count = (plane.len() / CHUNK_SYMBOLS).clamp(1, MAX_CHUNKS);
    let parts = split(plane, chunk_count);
    let counts = engine
        .map(parts.clone(), Counts::of_chunk)
        .into_iter()
        .reduce(Counts::add)
        .unwrap_or_default();
    let tables = counts.round();
    let mut packed = Vec::new();
    engine.zstd_encode(&tables.write(), MODEL_CODING, &mut packed);
    let codes = tables.codes();
    let chunks = engine.map(parts, |part| segments::encode(part, &codes));

    let stored: usize = chunks.iter().map(Vec::len).sum();
    let mut out = Vec::with_capacity(14 + packed.len() + 4 * chunk_count + stored);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[4, 0]);
    out.extend_from_slice(&symbols.to_le_bytes());
    out.extend_from_slice(&len_u32(&packed).to_le_bytes());
    out.extend_from_slice(&chunk_count.to_le_bytes()[..2]);
    out.extend_from_slice(&packed);
    write_lens(&mut out, &chunks);
    for chunk in &chunks {
        out.extend_from_slice(chunk);
    }
    out
}
