//! Decodes streams of a Huffman code, which are read from their ends (RFC 8878,
//! 4.2.2).
//!
//! In a flat code, every symbol is its own code, so a stream consists of packed
//! numbers, starting with the last one. Shifts unpack eight of them at a time.

use core::mem;

use super::Fault;
use super::huffman_table::{Code, SEVERAL_BITS, SEVERAL_LEN, Several};

/// Number of lookups of several symbols between two reads of input. The bits
/// that they take, plus a partly read byte, fit in a word with one bit left to
/// mark the end.
const LOOKUPS: usize = 5;
/// Number of output bytes that such a lookup may write: its symbols and surplus
/// bytes after them.
const OUTPUT_BYTES: usize = 8;
/// Number of lookups of one symbol between two reads of input.
const LOOKUPS_OF_ONE: usize = 4;
/// Fewer literals than this are decoded one by one, because a table for several
/// would cost more than it saves.
const MIN_SEVERAL: usize = 1024;

/// A stream that is read bit by bit from its end.
pub struct Backwards<'a> {
    bytes: &'a [u8],
    /// Number of bits that have not been read.
    pub left: usize,
}

impl<'a> Backwards<'a> {
    /// Opens a stream, which must end with a bit that marks the end and up to
    /// seven zeros.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Fault> {
        let last = *bytes.last().ok_or(EMPTY)?;
        let mark = last.checked_ilog2().ok_or(EMPTY)?;
        Ok(Self {
            bytes,
            left: 8 * (bytes.len() - 1) + mark as usize,
        })
    }

    /// Returns the next `bits` bits, up to 12, with zeros beyond the start of
    /// the stream.
    fn peek(&self, bits: u32) -> usize {
        let end = self.left.div_ceil(8);
        let mut word = [0; 4];
        let from = &self.bytes[end.saturating_sub(4)..end];
        word[4 - from.len()..].copy_from_slice(from);
        let word = u32::from_le_bytes(word) << (8 * end - self.left);
        (u64::from(word) << bits >> 32) as usize
    }

    /// Takes the next `bits` bits, up to 12. Returns `None` if fewer are left.
    pub fn take(&mut self, bits: u32) -> Option<usize> {
        let read = self.peek(bits);
        self.skip(bits)?;
        Some(read)
    }

    /// Returns at least 57 bits in the topmost positions, with zeros beyond the
    /// start of the stream.
    pub fn window(&self) -> u64 {
        let end = self.left.div_ceil(8);
        let read = &self.bytes[..end];
        let word = match read.last_chunk() {
            Some(word) => u64::from_le_bytes(*word),
            None => {
                let mut word = [0; 8];
                word[8 - end..].copy_from_slice(read);
                u64::from_le_bytes(word)
            }
        };
        word << (8 * end - self.left)
    }

    /// Skips the next `bits` bits. Returns `None` if fewer are left.
    pub fn skip(&mut self, bits: u32) -> Option<()> {
        self.left = self.left.checked_sub(bits as usize)?;
        Some(())
    }
}

pub(crate) const EMPTY: Fault = Fault("a Huffman stream has no end mark");
pub const END: Fault = Fault("a Huffman stream does not end with its last symbol");

/// Decodes one stream, which contains at most 1023 symbols, into `out`.
pub(crate) fn decode_one(code: &Code, bytes: &[u8], out: &mut [u8]) -> Result<(), Fault> {
    if let Some(bits) = code.flat_bits {
        return decode_flat(bits, bytes, out);
    }
    Stream::new(bytes, out)?.finish(code)
}

/// Returns the four streams that follow a table of the lengths of the first three.
pub(crate) fn split_four(bytes: &[u8]) -> Result<[&[u8]; 4], Fault> {
    let (lens, mut bytes) = bytes.split_first_chunk::<6>().ok_or(EMPTY)?;
    let mut next = |len: Option<usize>| {
        let len = len.unwrap_or(bytes.len());
        bytes.split_off(..len).ok_or(EMPTY)
    };
    let len = |k: usize| {
        Some(usize::from(u16::from_le_bytes([
            lens[2 * k],
            lens[2 * k + 1],
        ])))
    };
    Ok([next(len(0))?, next(len(1))?, next(len(2))?, next(None)?])
}

/// Decodes four streams, which follow a table of their lengths, into a quarter
/// of `out` each.
pub(crate) fn decode_four(code: &mut Code, bytes: &[u8], out: &mut [u8]) -> Result<(), Fault> {
    let bytes = split_four(bytes)?;
    let is_long = out.len() >= MIN_SEVERAL;
    let quarter = out.len().div_ceil(4);
    let (a, rest) = out.split_at_mut(quarter);
    let (b, rest) = rest.split_at_mut(quarter);
    let (c, d) = rest.split_at_mut(quarter);
    if let Some(bits) = code.flat_bits {
        let streams = bytes.into_iter().zip([a, b, c, d]);
        return streams
            .into_iter()
            .try_for_each(|(bytes, out)| decode_flat(bits, bytes, out));
    }
    let [one, two, three, four] = bytes;
    let mut streams = [
        Stream::new(one, a)?,
        Stream::new(two, b)?,
        Stream::new(three, c)?,
        Stream::new(four, d)?,
    ];
    if is_long && let Some(table) = code.several() {
        // Streams advance at different speeds, so each is continued alone.
        streams = run::<4, LOOKUPS>(streams, table).map(|stream| {
            let [stream] = run::<1, 1>(run::<1, LOOKUPS>([stream], table), table);
            stream
        });
    }
    streams
        .into_iter()
        .try_for_each(|stream| stream.finish(code))
}

/// A stream that is being decoded.
struct Stream<'a> {
    /// The input up to the byte that is read next, which streams read from the
    /// end.
    bytes: &'a [u8],
    /// Number of bits of the last byte of `bytes` that have been read.
    taken_bits: usize,
    /// Space for the remaining symbols.
    out: &'a mut [u8],
}

impl<'a> Stream<'a> {
    fn new(bytes: &'a [u8], out: &'a mut [u8]) -> Result<Self, Fault> {
        let Backwards { left, .. } = Backwards::new(bytes)?;
        Ok(Self {
            bytes,
            taken_bits: 8 * bytes.len() - left,
            out,
        })
    }

    /// Returns the next bits, left-aligned. The lowest set bit marks their end.
    /// Returns `None` if a whole word of input or the space for `lookups`
    /// lookups is not left.
    #[inline(always)]
    fn word(&self, lookups: usize) -> Option<u64> {
        let word = self.bytes.last_chunk()?;
        let has_space = self.out.len() >= OUTPUT_BYTES * lookups;
        has_space.then(|| (u64::from_le_bytes(*word) | 1) << self.taken_bits)
    }

    /// Decodes the remaining symbols one by one.
    fn finish(self, code: &Code) -> Result<(), Fault> {
        let mut stream = Backwards {
            bytes: self.bytes,
            left: 8 * self.bytes.len() - self.taken_bits,
        };
        for symbols in self.out.chunks_mut(LOOKUPS_OF_ONE) {
            let mut word = stream.window();
            let mut taken = 0;
            for symbol in symbols {
                let found = code.one(word);
                *symbol = found.symbol;
                word <<= found.bits;
                taken += u32::from(found.bits);
            }
            stream.skip(taken).ok_or(END)?;
        }
        if stream.left == 0 { Ok(()) } else { Err(END) }
    }
}

/// Decodes `STREAMS` streams together, until the end of the input or output of
/// one of them is near. Between two reads of its input, each stream takes
/// `LOOKUPS` lookups. They alternate between the streams, because a lookup waits
/// for the previous one of the same stream.
fn run<'a, const STREAMS: usize, const LOOKUPS: usize>(
    mut streams: [Stream<'a>; STREAMS],
    table: &[Several; SEVERAL_LEN],
) -> [Stream<'a>; STREAMS] {
    loop {
        let mut words = [0; STREAMS];
        for (word, stream) in words.iter_mut().zip(&streams) {
            match stream.word(LOOKUPS) {
                Some(next) => *word = next,
                None => return streams,
            }
        }
        // The masks of these counts, which are at most 30, let the compiler omit
        // bounds checks.
        let mut counts = [0; STREAMS];
        for _ in 0..LOOKUPS {
            for ((stream, word), count) in streams.iter_mut().zip(&mut words).zip(&mut counts) {
                let found = table[(*word >> (64 - SEVERAL_BITS)) as usize];
                let dest = &mut stream.out[*count & 31..][..OUTPUT_BYTES];
                dest.copy_from_slice(&found.symbols());
                *word <<= found.bits();
                *count += found.count();
            }
        }
        for ((stream, word), count) in streams.iter_mut().zip(words).zip(counts) {
            let taken = word.trailing_zeros() as usize;
            stream.bytes = &stream.bytes[..stream.bytes.len() - taken / 8];
            stream.taken_bits = taken % 8;
            stream.out = &mut mem::take(&mut stream.out)[count & 31..];
        }
    }
}

/// Number of symbols of a flat code that always fill whole bytes.
const GROUP: usize = 8;

/// Decodes one stream, which must fill `bytes`, into `out`. Every symbol has
/// `bits` bits, 1 to 7.
pub fn decode_flat(bits: u32, bytes: &[u8], out: &mut [u8]) -> Result<(), Fault> {
    let mut stream = Backwards::new(bytes)?;
    if stream.left != out.len() * bits as usize {
        return Err(END);
    }
    let (first, groups) = out.as_rchunks_mut::<GROUP>();
    for symbol in first {
        *symbol = stream.take(bits).ok_or(END)?.to_le_bytes()[0];
    }
    match bits {
        // The mantissas of bfloat16 have seven bits. Passing a constant lets the
        // compiler use constant shifts.
        7 => {
            let (bytes, groups) = sevens_at_once(bytes, groups);
            take_apart(7, bytes, groups);
        }
        _ => take_apart(bits, bytes, groups),
    }
    Ok(())
}

/// Unpacks groups of seven-bit symbols with vectors, and returns the rest of the
/// stream and the remaining groups, which precede the unpacked ones.
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "wasm32", target_feature = "simd128")
))]
fn sevens_at_once<'b, 'g>(
    bytes: &'b [u8],
    groups: &'g mut [[u8; GROUP]],
) -> (&'b [u8], &'g mut [[u8; GROUP]]) {
    #[cfg(target_arch = "x86_64")]
    use crate::entropy::zstd::avx2::{CODED_BYTES, SYMBOLS, unpack};
    #[cfg(target_arch = "wasm32")]
    use crate::entropy::zstd::simd128::{CODED_BYTES, SYMBOLS, unpack};
    let (_, symbols) = groups.as_flattened_mut().as_rchunks_mut::<SYMBOLS>();
    let done = unpack(bytes, symbols);
    let left = groups.len() - done * SYMBOLS / GROUP;
    (&bytes[done * CODED_BYTES..], &mut groups[..left])
}

#[cfg(not(any(
    target_arch = "x86_64",
    all(target_arch = "wasm32", target_feature = "simd128")
)))]
fn sevens_at_once<'b, 'g>(
    bytes: &'b [u8],
    groups: &'g mut [[u8; GROUP]],
) -> (&'b [u8], &'g mut [[u8; GROUP]]) {
    (bytes, groups)
}

#[inline(always)]
fn take_apart(bits: u32, bytes: &[u8], groups: &mut [[u8; GROUP]]) {
    let step = bits as usize;
    // Each group is read as a whole word, which extends past the group. All words of a
    // run are within `8 * RUN` bytes.
    let readable = match bytes.len().checked_sub(8 * RUN) {
        Some(beyond) => 1 + beyond / (RUN * step),
        None => 0,
    };
    let inside = RUN * readable.min(groups.len() / RUN);
    let (outer, inner) = groups.split_at_mut(groups.len() - inside);
    let (runs, _) = inner.as_chunks_mut::<RUN>();
    for (run, at) in runs.iter_mut().rev().zip((0..).step_by(RUN * step)) {
        let Some(words) = bytes[at..].first_chunk::<{ 8 * RUN }>() else {
            return;
        };
        for (k, group) in run.iter_mut().rev().enumerate() {
            let mut word = [0; 8];
            word.copy_from_slice(&words[k * step..k * step + 8]);
            *group = apart(bits, u64::from_le_bytes(word));
        }
    }
    for (group, at) in outer.iter_mut().rev().zip((inside * step..).step_by(step)) {
        let mut word = [0; 8];
        word[..step].copy_from_slice(&bytes[at..at + step]);
        *group = apart(bits, u64::from_le_bytes(word));
    }
}

/// Number of groups that are unpacked between two checks of the remaining input.
const RUN: usize = 8;

/// Unpacks eight numbers into one byte each. The last number is in the lowest
/// bits of `word`.
#[inline(always)]
fn apart(bits: u32, word: u64) -> [u8; GROUP] {
    // Separates halves, quarters and eighths, and moves each to its final
    // position.
    let four = (1 << (4 * bits)) - 1;
    let two = ((1 << (2 * bits)) - 1) * 0x0000_0001_0000_0001;
    let one = ((1 << bits) - 1) * 0x0001_0001_0001_0001;
    let word = word & four | (word >> (4 * bits) & four) << 32;
    let word = word & two | (word >> (2 * bits) & two) << 16;
    let word = word & one | (word >> bits & one) << 8;
    word.to_be_bytes()
}
