//! rANS of order 1, plane method 5 (section 8): the preceding symbol selects
//! the table of each symbol.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::state::{Allowance, Divided};
use super::table::{Frequencies, Lookup};
use super::{check_counts, len_u32, part_lens, split, split_mut, take_chunks, write_lens};
use crate::bytes::{self, Cursor};
use crate::engine::{Engine, PackEngine, ZstdCoding};
use crate::entropy::zstd;
use crate::{Error, Result, Rule};
use segments::Chunk;

mod segments;

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
    if len_bytes > MAX_BYTES {
        return Err(Error::malformed(
            Rule::RansModel,
            format!("a rANS model has {len_bytes} bytes, over the maximum of {MAX_BYTES}"),
        )
        .at(0));
    }
    zstd::check(frame, len_bytes)?;
    Ok(len_bytes)
}

/// Encodes a plane that is not empty.
///
/// # Panics
/// If the plane is empty or longer than `MAX_SYMBOLS`.
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

/// Length in bytes of the largest model, which has 256 rows of 256 symbols.
const MAX_BYTES: u64 = 256 * (3 + 3 * 256);

/// The lookup tables of every context that has a row.
type Contexts<'m> = [Option<&'m Lookup<SLOTS>>; 256];

/// A parsed model, with lookup tables of 5 KiB for every context that occurs.
#[derive(Debug)]
struct Order1Model {
    rows: Vec<(u8, Lookup<SLOTS>)>,
    most: u32,
}

impl Order1Model {
    /// Parses all rows of an unpacked model.
    pub fn parse(raw: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(raw);
        let mut seen = [false; 256];
        let mut model = Self {
            rows: Vec::new(),
            most: 0,
        };
        while cursor.remaining() > 0 {
            let context = cursor.u8("context of a rANS model").map_err(cut)?;
            if core::mem::replace(&mut seen[usize::from(context)], true) {
                return Err(bad(context, "is listed twice"));
            }
            let frequencies = read_row(&mut cursor, context)?;
            model.most = model.most.max(frequencies.most());
            model.rows.push((context, Lookup::new(&frequencies)));
        }
        Ok(model)
    }

    /// Returns the largest frequency in any row.
    pub fn most(&self) -> u32 {
        self.most
    }

    pub fn contexts(&self) -> Contexts<'_> {
        let mut contexts = [None; 256];
        for (context, lookup) in &self.rows {
            contexts[usize::from(*context)] = Some(lookup);
        }
        contexts
    }
}

fn bad(context: u8, what: &str) -> Error {
    Error::malformed(
        Rule::RansModel,
        format!("context {context} of a rANS model {what}"),
    )
}

/// Replaces an error whose offset counts from the start of the unpacked model,
/// because it would be taken for an offset in the payload.
fn cut(_: Error) -> Error {
    Error::malformed(Rule::RansModel, "a rANS model ends inside a row")
}

fn read_row(cursor: &mut Cursor, context: u8) -> Result<Frequencies> {
    let count = cursor.u16("symbol count").map_err(cut)?;
    if !(1..=256).contains(&count) {
        return Err(bad(context, "has no symbol, or more than 256"));
    }
    let mut table = Box::new([0; 256]);
    let mut least = 0;
    let mut sum = 0;
    for _ in 0..count {
        let symbol = usize::from(cursor.u8("symbol").map_err(cut)?);
        let frequency = cursor.u16("frequency").map_err(cut)?;
        if symbol < least {
            return Err(bad(context, "has symbols out of order"));
        }
        if frequency == 0 {
            return Err(bad(context, "has a symbol of frequency zero"));
        }
        least = symbol + 1;
        sum += u32::from(frequency);
        table[symbol] = frequency;
    }
    if sum != 1 << BITS {
        return Err(bad(context, "has frequencies with a wrong sum"));
    }
    Ok(Frequencies(table))
}

/// The number of times that each symbol follows each context. The counts fit
/// because a plane has fewer than 2^32 symbols.
#[derive(Debug)]
struct Counts(Vec<[u32; 256]>);

impl Default for Counts {
    fn default() -> Self {
        Self(vec![[0; 256]; 256])
    }
}

impl Counts {
    /// Counts the symbols of one chunk.
    pub(crate) fn of_chunk(chunk: &[u8]) -> Self {
        let mut counts = Self::default();
        for segment in segments::split(chunk) {
            let mut context = 0;
            for &symbol in segment {
                counts.0[usize::from(context)][usize::from(symbol)] += 1;
                context = symbol;
            }
        }
        counts
    }

    /// Returns the sum of both counts.
    pub fn add(mut self, other: Self) -> Self {
        for (row, more) in self.0.iter_mut().zip(other.0) {
            for (count, more) in row.iter_mut().zip(more) {
                *count += more;
            }
        }
        self
    }

    /// Rounds the counts of the contexts that occur to frequencies.
    pub fn round(&self) -> Tables {
        Tables(
            (0..=u8::MAX)
                .zip(&self.0)
                .filter(|(_, row)| row.iter().any(|&count| count > 0))
                .map(|(context, row)| (context, Frequencies::round(&row.map(u64::from), BITS)))
                .collect(),
        )
    }
}

/// The tables of an encoder, in ascending order of contexts.
#[derive(Debug)]
struct Tables(Vec<(u8, Frequencies)>);

impl Tables {
    /// Returns the serialised model, before it is packed.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (context, frequencies) in &self.0 {
            let present = (0..=u8::MAX)
                .zip(frequencies.0.iter())
                .filter(|&(_, &frequency)| frequency > 0);
            out.push(*context);
            out.extend_from_slice(&present.clone().count().to_le_bytes()[..2]);
            for (symbol, frequency) in present {
                out.push(symbol);
                out.extend_from_slice(&frequency.to_le_bytes());
            }
        }
        out
    }

    /// Returns the codes of all pairs of context and symbol that occur.
    pub fn codes(&self) -> Codes {
        let mut numbers = [0; 256];
        for ((context, _), number) in self.0.iter().zip(0..=u8::MAX) {
            numbers[usize::from(*context)] = number;
        }
        let rows = self.0.iter().map(|(_, frequencies)| {
            let codes = frequencies.codes();
            codes.map(|code| Divided::new(code, BITS))
        });
        Codes {
            rows: rows.collect(),
            numbers,
        }
    }
}

/// The codes of all pairs of context and symbol that occur.
#[derive(Debug)]
struct Codes {
    rows: Vec<[Divided; 256]>,
    /// The row index of each context.
    numbers: [u8; 256],
}

impl Codes {
    /// Returns the code of `symbol` after `context`.
    #[inline]
    pub fn of(&self, context: u8, symbol: u8) -> &Divided {
        let number = self.numbers[usize::from(context)];
        &self.rows[usize::from(number)][usize::from(symbol)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The model of the worked example (docs/formats/z4ai-frames.md 17).
    const ABRACADABRA: &[u8] = &[
        0x00, 3, 0, 0x61, 0x00, 0x08, 0x62, 0x00, 0x04, 0x72, 0x00, 0x04, 0x61, 3, 0, 0x62, 0x56,
        0x05, 0x63, 0x55, 0x05, 0x64, 0x55, 0x05, 0x62, 1, 0, 0x72, 0x00, 0x10, 0x64, 1, 0, 0x61,
        0x00, 0x10, 0x72, 1, 0, 0x61, 0x00, 0x10,
    ];

    #[test]
    fn the_worked_example_of_chapter_17() {
        let tables = Counts::of_chunk(b"abracadabra").round();
        assert_eq!(tables.write(), ABRACADABRA);
        let model = Order1Model::parse(ABRACADABRA).unwrap();
        let present: Vec<usize> = (0..256)
            .filter(|&i| model.contexts()[i].is_some())
            .collect();
        assert_eq!(present, [0x00, 0x61, 0x62, 0x64, 0x72]);
        assert_eq!(model.most(), 4096);
    }

    #[test]
    fn every_rule_of_a_row() {
        let rows: [&[u8]; 9] = [
            &[0],
            &[0, 1, 0, 5, 0],
            &[0, 0, 0],
            &[0, 1, 1],
            &[0, 1, 0, 5, 0xFF, 0x0F],
            &[0, 2, 0, 5, 0, 8, 5, 0, 8],
            &[0, 2, 0, 6, 0, 8, 5, 0, 8],
            &[0, 2, 0, 5, 0, 16, 6, 0, 0],
            &[0, 1, 0, 5, 0, 16, 0, 1, 0, 5, 0, 16],
        ];
        for row in rows {
            let error = Order1Model::parse(row).unwrap_err();
            assert_eq!(error.rule(), Some(Rule::RansModel), "{row:?}");
        }
    }
}
