//! rANS of order 0, with one table (plane method 3, section 6) or with a table
//! for every chunk (plane method 4, section 7).

#[cfg(feature = "plan")]
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::state::Allowance;
use super::stream::{self, BITS, GROUP_STREAMS, Plain, SIDE_BY_SIDE};
use super::table::{Frequencies, Lookup, TABLE_BYTES};
use super::{check_counts, len_u32, part_lens, split, split_mut, take_chunks, write_lens};
use crate::bytes::{self, Cursor};
use crate::engine::{Engine, PackEngine, ZstdCoding};
use crate::entropy::histogram::{count, values};
use crate::entropy::zstd;
use crate::{Error, Result, Rule};

const CHUNKED: u64 = 1 << 63;

/// The minimum length of a chunk, if the encoder makes [`FEWEST_CHUNKS`] or
/// more. Each chunk costs 20 bytes, less than a thousandth of its length.
const SHORT_CHUNK_SYMBOLS: usize = 1 << 17;
/// The smallest number of chunks above one. Decoding fewer streams side by side is not
/// faster than decoding one.
const FEWEST_CHUNKS: usize = 4;
/// The minimum length of a chunk, if the encoder makes more than
/// [`GROUP_STREAMS`], which are decoded on several threads.
const CHUNK_SYMBOLS: usize = 1 << 19;
const MAX_CHUNKS: usize = 64;

/// A parsed payload of method 3.
#[derive(Debug, Clone)]
pub struct Shared<'a> {
    /// `None` for an empty plane.
    table: Option<Frequencies>,
    chunks: Vec<&'a [u8]>,
}

impl<'a> Shared<'a> {
    /// Parses the table and the chunk lengths, and checks that the chunks can
    /// hold a plane of `len_bytes` bytes.
    pub fn parse(payload: &'a [u8], len_bytes: u64) -> Result<Self> {
        let mut cursor = Cursor::new(payload);
        let count = cursor.u64("rANS symbol count")?;
        if len_bytes == 0 {
            return empty(count, &cursor).map(|()| Self {
                table: None,
                chunks: Vec::new(),
            });
        }
        let chunk_count = match count & CHUNKED {
            0 => None,
            _ => Some(u64::from(cursor.u16("rANS chunk count")?)),
        };
        check_counts(count & !CHUNKED, chunk_count.unwrap_or(1), len_bytes).map_err(|e| e.at(0))?;
        let table = Frequencies::read(&mut cursor, BITS)?;
        let chunks = match chunk_count {
            Some(k) => {
                let lens = cursor.take(4 * k, "rANS chunk lengths")?;
                take_chunks(&mut cursor, lens, stream::HEAD_BYTES)?
            }
            None => vec![cursor.take(cursor.remaining() as u64, "rANS stream")?],
        };
        let mut allowance = Allowance::new();
        for (chunk, symbols) in chunks.iter().zip(part_lens(len_bytes, chunks.len() as u64)) {
            allowance.check(symbols, stream::supply(chunk.len()), table.most(), BITS)?;
        }
        Ok(Self {
            table: Some(table),
            chunks,
        })
    }

    /// Returns the number of chunks.
    #[cfg(feature = "plan")]
    pub(crate) fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// Returns the table of all chunks, unless the plane is empty, and every chunk with
    /// the number of its symbols. The plane has `len_bytes` bytes.
    #[cfg(feature = "plan")]
    pub(crate) fn outline(
        &self,
        len_bytes: u64,
    ) -> (Option<&[u16; 256]>, impl Iterator<Item = (&'a [u8], u64)>) {
        let table = self.table.as_ref().map(|table| &*table.0);
        (table, with_symbols(&self.chunks, len_bytes))
    }

    /// Decodes into `out`, which must be as long as the plane.
    pub fn decode<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
        let Some(table) = &self.table else {
            return Ok(());
        };
        let lookup = &Lookup::new(table);
        let parts = split_mut(out, self.chunks.len());
        let chunks = self.chunks.iter().zip(parts);
        let coded = chunks.map(|(&stream, out)| stream::Coded {
            stream,
            lookup,
            out,
        });
        engine
            .map(stream::groups(coded), stream::decode)
            .into_iter()
            .collect()
    }
}

/// Returns every chunk with the number of its symbols.
#[cfg(feature = "plan")]
fn with_symbols<'a>(chunks: &[&'a [u8]], len_bytes: u64) -> impl Iterator<Item = (&'a [u8], u64)> {
    let symbols = part_lens(len_bytes, chunks.len() as u64);
    chunks.iter().copied().zip(symbols)
}

/// Checks the rest of the payload of an empty plane, which methods 3 and 4 code
/// as eight zero bytes.
pub(super) fn empty(count: u64, cursor: &Cursor) -> Result<()> {
    if count == 0 && cursor.remaining() == 0 {
        Ok(())
    } else {
        Err(Error::malformed(
            Rule::RansHead,
            "the payload of an empty rANS plane must be eight zero bytes",
        )
        .at(0))
    }
}

/// Estimates the length of the result of [`encode_shared`] for a plane with these
/// counts. Rounding may make it differ by one part in a few thousand.
#[must_use]
pub(crate) fn shared_len_bytes(counts: &[u64; 256]) -> usize {
    8 + TABLE_BYTES + stream::expected_len_bytes(counts)
}

/// Returns the number of chunks of a plane of `len_bytes` bytes: 1, an even number up to
/// [`GROUP_STREAMS`], or a multiple of [`GROUP_STREAMS`], so that chunks can be decoded
/// side by side.
fn chunk_count(len_bytes: usize) -> usize {
    let short = (len_bytes / SHORT_CHUNK_SYMBOLS).min(GROUP_STREAMS);
    if short < FEWEST_CHUNKS {
        return 1;
    }
    let groups = len_bytes / CHUNK_SYMBOLS / GROUP_STREAMS;
    (groups * GROUP_STREAMS).clamp(short / 2 * 2, MAX_CHUNKS)
}

/// Encodes a plane that is not empty.
///
/// # Panics
/// If the plane is empty.
#[must_use]
pub fn encode_shared<E: PackEngine>(engine: &E, plane: &[u8]) -> Vec<u8> {
    assert!(!plane.is_empty(), "an empty plane is stored");
    let chunk_count = chunk_count(plane.len());
    let table = Frequencies::round(&count(plane), BITS);
    let codes = table.codes();
    let parts = split(plane, chunk_count);
    let plain = |symbols| Plain {
        symbols,
        codes: &codes,
    };
    let plain: Vec<Plain> = parts.into_iter().map(plain).collect();
    let groups: Vec<&[Plain]> = plain.chunks(SIDE_BY_SIDE).collect();
    let chunks = engine.map(groups, |group| stream::encode(engine, group));
    let chunks: Vec<Vec<u8>> = chunks.into_iter().flatten().collect();
    let stored: usize = chunks.iter().map(Vec::len).sum();
    let mut out = Vec::with_capacity(10 + TABLE_BYTES + 4 * chunk_count + stored);
    let symbols = plane.len() as u64;
    if let [stream] = &chunks[..] {
        out.extend_from_slice(&symbols.to_le_bytes());
        table.write(&mut out);
        out.extend_from_slice(stream);
        return out;
    }
    out.extend_from_slice(&(symbols | CHUNKED).to_le_bytes());
    out.extend_from_slice(&chunk_count.to_le_bytes()[..2]);
    table.write(&mut out);
    write_lens(&mut out, &chunks);
    for chunk in &chunks {
        out.extend_from_slice(chunk);
    }
    out
}

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

    /// Returns the number of chunks.
    #[cfg(feature = "plan")]
    pub(crate) fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// Reads the packed tables, and returns the chunks. The plane has `len_bytes` bytes.
    ///
    /// # Errors
    /// The tables are damaged, or a chunk is too short for its symbols.
    #[cfg(feature = "plan")]
    pub(crate) fn outline<E: Engine>(
        &self,
        engine: &E,
        len_bytes: u64,
    ) -> Result<impl Iterator<Item = AdaptiveChunk<'a>>> {
        let tables = self.checked_tables(engine, len_bytes)?;
        let chunks = with_symbols(&self.chunks, len_bytes);
        let with_tables = tables.into_iter().zip(chunks);
        Ok(with_tables.map(|(table, (coded, symbols))| AdaptiveChunk {
            frequencies: table.0,
            coded,
            symbols,
        }))
    }

    fn checked_tables<E: Engine>(&self, engine: &E, len_bytes: u64) -> Result<Vec<Frequencies>> {
        let tables = self.read_tables(engine)?;
        self.check_capacity(len_bytes, |i| tables[i].most())?;
        Ok(tables)
    }

    /// Decodes into `out`, which must be as long as the plane.
    pub fn decode<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
        if self.chunks.is_empty() {
            return Ok(());
        }
        let tables = self.checked_tables(engine, out.len() as u64)?;
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

/// A chunk of a plane of method 4.
#[cfg(feature = "plan")]
pub(crate) struct AdaptiveChunk<'a> {
    pub frequencies: Box<[u16; 256]>,
    pub coded: &'a [u8],
    /// Number of symbols.
    pub symbols: u64,
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

/// Estimates the length of the result of [`encode_adaptive`] for a plane whose chunks
/// have these counts. Rounding may make it differ by one part in a few
/// thousand.
#[must_use]
pub(crate) fn adaptive_len_bytes(chunk_counts: &[[u64; 256]]) -> usize {
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
pub fn encode_adaptive<E: PackEngine>(engine: &E, plane: &[u8], chunk_bytes: usize) -> Vec<u8> {
    assert!(!plane.is_empty(), "an empty plane is stored");
    let chunk_counts = chunk_counts(engine, plane, chunk_bytes);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_one_or_fill_vectors() {
        let counts = [
            (1, 1),
            ((1 << 19) - 1, 1),
            (1 << 19, 4),
            (384 * 1536, 4),
            (3 << 18, 6),
            (1 << 20, 8),
            (1 << 22, 8),
            (1 << 24, 32),
            (1 << 30, 64),
        ];
        for (len_bytes, expected) in counts {
            assert_eq!(chunk_count(len_bytes), expected, "{len_bytes}");
        }
    }
}
