//! Range ANS with many interleaved states and a choice of tables for each
//! symbol (docs/formats/zxd1.md 7 and 8).
//!
//! Symbol `i` belongs to state `i mod N` of 8, 16 or 32 states. Between
//! symbols, a state is a 32-bit number of at least `2^16`, and it consumes at
//! most one 16-bit word after each symbol. All states share one stream of
//! words.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use crate::bytes::{self, Cursor};
use crate::entropy::bits::{BitReader, BitWriter};
use crate::{Error, Result, Rule};

#[cfg(target_arch = "x86_64")]
mod avx2;
mod decode;
mod encode;
mod frequencies;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod simd128;

pub(crate) use decode::decode_together;
pub use decode::{DecodeTables, Decoder, StreamPart};
pub(crate) use encode::encode_one_table;
pub use encode::{EncodeTables, encode};
pub(crate) use frequencies::{FRACTION_BITS, entropy_cost, table_cost, table_len_cost};
pub use frequencies::{Frequencies, log2};

/// Number of bits of a slot. Frequencies sum to `1 << SLOT_BITS`.
pub(crate) const SLOT_BITS: u32 = 12;
/// The sum of the frequencies of a table.
pub(crate) const SLOTS: u32 = 1 << SLOT_BITS;
/// The maximum number of tables that the symbols of a stream choose from.
pub(crate) const MAX_TABLES: usize = 16;
/// The maximum number of states of a stream.
pub(crate) const MAX_STATES: usize = 32;
/// The number of states of a side stream, and the number of symbols that a
/// decoder processes at once.
pub(crate) const MIN_STATES: usize = 8;

/// The lower bound of a state, and its value before the first symbol is
/// encoded.
const LOWER: u32 = 1 << 16;

/// More states than the minimum are used if they cost at most 1/n of a block,
/// because they make decoding faster.
const STATES_SHARE: u64 = 500;

/// Returns the number of states for blocks of `block_bytes` bytes: the largest
/// number whose cost is small.
#[must_use]
pub(crate) fn states(block_bytes: u64) -> usize {
    let is_worth = |states: &usize| {
        let more_bytes = 4 * (states - MIN_STATES) as u64;
        more_bytes * STATES_SHARE <= block_bytes
    };
    let counts = [MAX_STATES, MAX_STATES / 2];
    counts.into_iter().find(is_worth).unwrap_or(MIN_STATES)
}

const STORED: u8 = 0;
const CODED: u8 = 1;

/// A parsed side stream (docs/formats/zxd1.md 9) whose fields are consistent.
/// It holds bytes that are either stored unchanged or coded with a table of
/// their own.
#[derive(Debug, Clone)]
pub struct SideStream<'a> {
    len_bytes: u64,
    content: Content<'a>,
}

#[derive(Debug, Clone)]
enum Content<'a> {
    Stored(&'a [u8]),
    Coded(Frequencies, &'a [u8]),
}

impl<'a> SideStream<'a> {
    /// Parses a side stream that decodes to `len_bytes` bytes, and checks that
    /// the stored data can hold that many.
    pub fn parse(cursor: &mut Cursor<'a>, len_bytes: u64) -> Result<Self> {
        let at = cursor.position() as u64;
        let content = match cursor.u8("kind of a side stream")? {
            STORED => Content::Stored(cursor.take(len_bytes, "side stream")?),
            CODED => {
                let table_len = cursor.u16("length of a table")?;
                let table_at = cursor.position() as u64;
                let mut bits = BitReader::new(cursor.take(table_len.into(), "table")?);
                let read = Frequencies::read(&mut bits).and_then(|table| {
                    bits.finish(Rule::InterleavedTable, "the table")?;
                    Ok(table)
                });
                let table = read.map_err(|error| error.within(table_at).at(table_at))?;
                let stream_len = cursor.u32("length of a rANS stream")?;
                let stream = cursor.take(stream_len.into(), "rANS stream")?;
                check_capacity(len_bytes, stream, table.most()).map_err(|error| error.at(at))?;
                Content::Coded(table, stream)
            }
            kind => {
                let detail = format!("the side stream kind {kind} does not exist, only 0 and 1");
                return Err(Error::malformed(Rule::InterleavedSide, detail).at(at));
            }
        };
        Ok(Self { len_bytes, content })
    }

    /// Returns the decoded bytes. Callers must have bounded their number,
    /// because a coded stream of a single symbol can hold any number of
    /// symbols.
    pub fn decode(&self) -> Result<Vec<u8>> {
        let (table, stream) = match &self.content {
            Content::Stored(stored) => return Ok(stored.to_vec()),
            Content::Coded(table, stream) => (table, stream),
        };
        let mut decoder = Decoder::new(stream, MIN_STATES)?;
        let mut out = bytes::buffer(self.len_bytes)?;
        let tables = DecodeTables::new(core::slice::from_ref(table));
        let choices = [0; 1024];
        for part in out.chunks_mut(choices.len()) {
            decoder.decode(&tables, &choices[..part.len()], part);
        }
        decoder.finish()?;
        Ok(out)
    }
}

/// Rejects streams that cannot hold `symbols` symbols.
///
/// A state carries 16 bits in addition to the bits of the words. A symbol of
/// frequency `f` out of 4096 takes `log2(4096 / f) > 1.4427 * (4096 - f) /
/// 4096` bits. Rounding in a state of at least `2^16` saves less than 1/16 of
/// that, so it still takes more than `21/16 * (4096 - f) / 4096` bits. A symbol
/// with the full frequency takes none; the number of such symbols is bounded by
/// the length of the tensor.
fn check_capacity(symbols: u64, stream: &[u8], most: u32) -> Result<()> {
    let states_bits = 16 * MIN_STATES as u128;
    let words_bytes = stream.len().saturating_sub(4 * MIN_STATES) as u128;
    let held = states_bits + 8 * words_bytes;
    if u128::from(symbols) * u128::from(SLOTS - most) * 21 <= held * u128::from(SLOTS) * 16 {
        return Ok(());
    }
    let detail = format!(
        "a side stream of {} bytes cannot encode {symbols} symbols",
        stream.len()
    );
    Err(Error::malformed(Rule::InterleavedSide, detail))
}

/// Encodes `content` as a side stream, stored or coded, whichever is shorter.
#[must_use]
pub fn encode_side_stream(content: &[u8]) -> Vec<u8> {
    let mut out = vec![STORED];
    out.extend_from_slice(content);
    let mut counts = [0; 256];
    for &byte in content {
        counts[usize::from(byte)] += 1u32;
    }
    let frequencies = Frequencies::round(&counts);
    let mut table = Vec::new();
    let mut bits = BitWriter::new(&mut table);
    frequencies.write(&mut bits);
    bits.finish();
    let stream = encode_one_table(frequencies, content, MIN_STATES);
    if 1 + 2 + table.len() + 4 + stream.len() >= out.len() {
        return out;
    }
    let (Ok(table_len), Ok(stream_len)) = (u16::try_from(table.len()), u32::try_from(stream.len()))
    else {
        return out;
    };
    out.clear();
    out.push(CODED);
    out.extend_from_slice(&table_len.to_le_bytes());
    out.extend_from_slice(&table);
    out.extend_from_slice(&stream_len.to_le_bytes());
    out.extend_from_slice(&stream);
    out
}
