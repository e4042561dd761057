//! rANS of order 0 with a table for every chunk, plane method 4 (section 7).

use alloc::format;
use alloc::vec::Vec;

use super::shared::empty;
use super::state::Allowance;
use super::stream::{self, BITS, Plain, SIDE_BY_SIDE};
use super::table::{Frequencies, Lookup, TABLE_BYTES};
use super::{check_counts, len_u32, part_lens, split, split_mut, take_chunks, write_lens};
use crate::bytes::{self, Cursor};
use crate::engine::{Engine, PackEngine, ZstdCoding};
use crate::entropy::histogram::{count, values};
use crate::entropy::zstd;
use crate::{Error, Result, Rule};

const FLAG: u64 = 1 << 62;

/// Tables are mostly noise to zstd, so a longer search gains nothing.
const TABLE_CODING: ZstdCoding = ZstdCoding::Search(3);

/// A parsed payload of method 4. Its packed tables have not been checked.
#[derive(Debug, Clone)]
pub struct Adaptive<'a> {
    tables: &'a [u8],
    chunks: Vec<&'a [u8]>,
}

impl<'a> Adaptive<'a> {
    /// Parses the head and the chunk lengths, and checks that the chunks can
    /// hold a plane of `len_bytes` bytes with the cheapest tables.
    pub fn parse(payload: &'a [u8], len_bytes: u64) -> Result<Self> {
        let mut cursor = Cursor::new(payload);
        let count = cursor.u64("rANS symbol count")?;
        if len_bytes == 0 {
            return empty(count, &cursor).map(|()| Self {
                tables: &[],
                chunks: Vec::new(),
            });
        }
        if count & FLAG == 0 {
            return Err(
                Error::malformed(Rule::RansHead, "the flag of adaptive rANS is missing").at(0),
            );
        }
        let chunk_count = u64::from(cursor.u32("rANS chunk count")?);
        check_counts(count ^ FLAG, chunk_count, len_bytes).map_err(|e| e.at(0))?;
        let tables_len = cursor.u32("length of the rANS tables")?;
        let lens = cursor.take(4 * chunk_count, "rANS chunk lengths")?;
        let base = cursor.position() as u64;
        let tables = cursor.take(tables_len.into(), "rANS tables")?;
        let chunks = take_chunks(&mut cursor, lens, stream::HEAD_BYTES)?;
        // The chunks exist, which justifies the allocation of their tables.
        zstd::check(tables, tables_bytes(chunks.len())).map_err(|e| e.within(base))?;
        let parsed = Self { tables, chunks };
        parsed.check_capacity(len_bytes, |_| 1 << BITS)?;
        Ok(parsed)
    }

    /// Checks that the chunks can hold a plane of `len_bytes` bytes. `most`
    /// returns the largest frequency in the table of a chunk.
    fn check_capacity(&self, len_bytes: u64, most: impl Fn(usize) -> u32) -> Result<()> {
        let mut allowance = Allowance::new();
        let lens = part_lens(len_bytes, self.chunks.len() as u64);
        for (i, (chunk, symbols)) in self.chunks.iter().zip(lens).enumerate() {
            allowance.check(symbols, stream::supply(chunk.len()), most(i), BITS)?;
        }
        Ok(())
    }

    fn read_tables<E: Engine>(&self, engine: &E) -> Result<Vec<Frequencies>> {
        let mut raw = bytes::buffer(tables_bytes(self.chunks.len()))?;
        zstd::decode(engine, self.tables, &mut raw)?;
        let mut cursor = Cursor::new(&raw);
        (0..self.chunks.len())
            .map(|i| {
                Frequencies::read(&mut cursor, BITS)
                    .map_err(|e| Error::malformed(Rule::RansTable, format!("chunk {i}: {e}")))
            })
            .collect()
    }

    /// Decodes into `out`, which must be as long as the plane.
    pub fn decode<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
        if self.chunks.is_empty() {
            return Ok(());
        }
        let tables = self.read_tables(engine)?;
        self.check_capacity(out.len() as u64, |i| tables[i].most())?;
        let parts = split_mut(out, self.chunks.len());
        let chunks = self.chunks.iter().zip(&tables).zip(parts);
        engine
            .map(stream::groups(chunks), |group| {
                let lookups: Vec<_> = group.iter().map(|((_, t), _)| Lookup::new(t)).collect();
                let coded = group.into_iter().zip(&lookups);
                let coded = coded.map(|(((&stream, _), out), lookup)| stream::Coded {
                    stream,
                    lookup,
                    out,
                });
                stream::decode(coded.collect())
            })
            .into_iter()
            .collect()
    }
}

fn tables_bytes(chunk_count: usize) -> u64 {
    (chunk_count * TABLE_BYTES) as u64
}

/// Divides a plane into chunks of at most `chunk_bytes` bytes and counts the
/// byte values in each. Shorter chunks have tables that fit better, but the
/// tables take more space.
///
/// # Panics
/// If `chunk_bytes` is 0.
#[must_use]
pub(crate) fn chunk_counts<E: Engine>(
    engine: &E,
    plane: &[u8],
    chunk_bytes: usize,
) -> Vec<[u64; 256]> {
    engine.map(split(plane, plane.len().div_ceil(chunk_bytes)), count)
}

/// Estimates the length of the result of [`encode`] for a plane whose chunks
/// have these counts. Rounding may make it differ by one part in a few
/// thousand.
#[must_use]
pub(crate) fn expected_len_bytes(chunk_counts: &[[u64; 256]]) -> usize {
    let chunks = chunk_counts.iter().map(|counts| {
        let symbols = values(counts);
        // A chunk length, the states, and a packed table of 16-bit numbers.
        4 + stream::expected_len_bytes(counts) + 2 * symbols
    });
    16 + chunks.sum::<usize>()
}

/// Encodes a plane that is not empty, in chunks of at most `chunk_bytes` bytes.
///
/// # Panics
/// If the plane is empty, or `chunk_bytes` is 0.
#[must_use]
pub fn encode<E: PackEngine>(engine: &E, plane: &[u8], chunk_bytes: usize) -> Vec<u8> {
    encode_counted(engine, plane, &chunk_counts(engine, plane, chunk_bytes))
}

/// Encodes like [`encode`]. `chunk_counts` must be the result of
/// [`chunk_counts`] for this plane.
///
/// # Panics
/// If the plane is empty, or a count of a symbol in it is missing.
#[must_use]
pub(crate) fn encode_counted<E: PackEngine>(
    engine: &E,
    plane: &[u8],
    chunk_counts: &[[u64; 256]],
) -> Vec<u8> {
    assert!(!plane.is_empty(), "an empty plane is stored");
    let chunk_count = chunk_counts.len();
    let round = |counts| Frequencies::round(counts, BITS);
    let tables: Vec<Frequencies> = chunk_counts.iter().map(round).collect();
    let parts = split(plane, chunk_count);
    let parts: Vec<(&[u8], &Frequencies)> = parts.into_iter().zip(&tables).collect();
    let chunks = engine.map(parts.chunks(SIDE_BY_SIDE).collect(), |group| {
        let codes: Vec<_> = group.iter().map(|(_, table)| table.codes()).collect();
        let plain = group.iter().zip(&codes);
        let plain = plain.map(|((symbols, _), codes)| Plain { symbols, codes });
        stream::encode(engine, &plain.collect::<Vec<_>>())
    });
    let chunks: Vec<Vec<u8>> = chunks.into_iter().flatten().collect();
    let mut raw = Vec::with_capacity(chunk_count * TABLE_BYTES);
    for table in &tables {
        table.write(&mut raw);
    }
    let mut packed = Vec::new();
    engine.zstd_encode(&raw, TABLE_CODING, &mut packed);

    let stored: usize = chunks.iter().map(Vec::len).sum();
    let mut out = Vec::with_capacity(16 + 4 * chunk_count + packed.len() + stored);
    out.extend_from_slice(&(plane.len() as u64 | FLAG).to_le_bytes());
    out.extend_from_slice(&(chunk_count as u64).to_le_bytes()[..4]);
    out.extend_from_slice(&len_u32(&packed).to_le_bytes());
    write_lens(&mut out, &chunks);
    out.extend_from_slice(&packed);
    for chunk in &chunks {
        out.extend_from_slice(chunk);
    }
    out
}
