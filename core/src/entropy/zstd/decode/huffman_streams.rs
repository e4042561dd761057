//! Decodes streams of a Huffman code, which are read from their ends (RFC 8878,
//! 4.2.2).
//!
//! In a flat code, every symbol is its own code, so a stream consists of packed
//! numbers, starting with the last one. Shifts unpack eight of them at a time.

use super::Fault;
use super::huffman_table::{Code, SEVERAL_BITS, SEVERAL_LEN, Several};

/// Number of lookups between two reads of input. The bits that they take, plus
/// a partly read byte, fit in a word with one bit left to mark the end.
const LOOKUPS: usize = 5;
/// Maximum number of symbols that [`LOOKUPS`] lookups produce.
const MAX_SYMBOLS: usize = 3 * LOOKUPS;
/// Number of output bytes that a step may write: its symbols and the surplus
/// bytes after them.
const OUTPUT_BYTES: usize = 20;
/// Maximum number of input bytes that [`LOOKUPS`] lookups consume.
const MAX_BYTES: usize = 7;
/// Streams with fewer symbols are decoded one symbol at a time, because a table
/// for several would cost more than it saves.
const MIN_SEVERAL: usize = 512;

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

/// Decodes one stream, which must fill `bytes`, into `out`.
pub(crate) fn decode_one(code: &mut Code, bytes: &[u8], out: &mut [u8]) -> Result<(), Fault> {
    if let Some(bits) = code.flat_bits {
        return decode_flat(bits, bytes, out);
    }
    let mut stream = Stream::new(bytes, out)?;
    if out_is_long(stream.out.len())
        && let Some(table) = code.several()
    {
        stream.run(table);
    }
    stream.finish(code)
}

/// Decodes four streams, which follow a table of their lengths, into a quarter
/// of `out` each.
pub(crate) fn decode_four(code: &mut Code, bytes: &[u8], out: &mut [u8]) -> Result<(), Fault> {
    let (lens, mut bytes) = bytes.split_first_chunk::<6>().ok_or(EMPTY)?;
    let quarter = out.len().div_ceil(4);
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
    let (a, rest) = out.split_at_mut(quarter);
    let (b, rest) = rest.split_at_mut(quarter);
    let (c, d) = rest.split_at_mut(quarter);
    let bytes = [next(len(0))?, next(len(1))?, next(len(2))?, next(None)?];
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
    if out_is_long(quarter)
        && let Some(table) = code.several()
    {
        run_four(&mut streams, table);
        for stream in &mut streams {
            stream.run(table);
        }
    }
    streams
        .into_iter()
        .try_for_each(|stream| stream.finish(code))
}

fn out_is_long(len: usize) -> bool {
    len >= MIN_SEVERAL
}

/// A stream that is being decoded.
struct Stream<'a> {
    bytes: &'a [u8],
    out: &'a mut [u8],
    /// Number of symbols decoded so far.
    done: usize,
    /// Offset of `word` in the input.
    from: usize,
    /// The next bits, left-aligned. The lowest set bit marks their end.
    word: u64,
}

impl<'a> Stream<'a> {
    fn new(bytes: &'a [u8], out: &'a mut [u8]) -> Result<Self, Fault> {
        let Backwards { left, .. } = Backwards::new(bytes)?;
        let from = bytes.len().saturating_sub(8);
        let mut stream = Self {
            bytes,
            out,
            done: 0,
            from,
            word: 0,
        };
        stream.word = stream.load(8 * bytes.len() - left);
        Ok(stream)
    }

    /// Returns the word at `from` without its topmost `taken_bits` bits.
    #[inline(always)]
    fn load(&self, taken_bits: usize) -> u64 {
        let word = self.bytes[self.from..].first_chunk();
        // Streams of less than eight bytes are not read by words.
        word.map_or(0, |word| (u64::from_le_bytes(*word) | 1) << taken_bits)
    }

    /// Returns how many times [`Self::step`] can run without a bounds check.
    fn steps(&self) -> usize {
        let capacity = (self.out.len() - self.done + MAX_SYMBOLS).saturating_sub(OUTPUT_BYTES);
        (capacity / MAX_SYMBOLS).min(self.from / MAX_BYTES)
    }

    #[inline(always)]
    fn step(&mut self, table: &[Several; SEVERAL_LEN]) {
        let Some(dest) = self.out[self.done..].first_chunk_mut::<OUTPUT_BYTES>() else {
            return;
        };
        let mut word = self.word;
        let mut at = 0;
        for _ in 0..LOOKUPS {
            let found = table[(word >> (64 - SEVERAL_BITS)) as usize];
            dest[at & 15..][..4].copy_from_slice(&found.to_le_bytes());
            word <<= found >> 24 & 15;
            at += (found >> 28) as usize;
        }
        self.done += at;
        let taken = word.trailing_zeros() as usize;
        self.from -= taken / 8;
        self.word = self.load(taken % 8);
    }

    /// Decodes everything except the symbols near the end of input or output.
    fn run(&mut self, table: &[Several; SEVERAL_LEN]) {
        loop {
            let steps = self.steps();
            if steps == 0 {
                return;
            }
            for _ in 0..steps {
                self.step(table);
            }
        }
    }

    /// Decodes the remaining symbols one by one.
    fn finish(self, code: &Code) -> Result<(), Fault> {
        let mut stream = Backwards::new(self.bytes)?;
        if self.done > 0 {
            let taken = self.word.trailing_zeros() as usize;
            stream.left = 8 * self.from + 64 - taken;
        }
        for byte in &mut self.out[self.done..] {
            let found = code.one(stream.peek(code.one_bits));
            stream.left = stream.left.checked_sub(found.bits.into()).ok_or(END)?;
            *byte = found.symbol;
        }
        if stream.left == 0 { Ok(()) } else { Err(END) }
    }
}

/// Decodes all four streams together as far as possible without checking for
/// their ends.
fn run_four(streams: &mut [Stream; 4], table: &[Several; SEVERAL_LEN]) {
    loop {
        let steps = streams.iter().map(Stream::steps).min().unwrap_or(0);
        if steps == 0 {
            return;
        }
        for _ in 0..steps {
            for stream in &mut *streams {
                stream.step(table);
            }
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
#[cfg(target_arch = "x86_64")]
fn sevens_at_once<'b, 'g>(
    bytes: &'b [u8],
    groups: &'g mut [[u8; GROUP]],
) -> (&'b [u8], &'g mut [[u8; GROUP]]) {
    use crate::entropy::zstd::avx2::{CODED_BYTES, SYMBOLS, unpack};
    let (_, symbols) = groups.as_flattened_mut().as_rchunks_mut::<SYMBOLS>();
    let done = unpack(bytes, symbols).unwrap_or(0);
    let left = groups.len() - done * SYMBOLS / GROUP;
    (&bytes[done * CODED_BYTES..], &mut groups[..left])
}

#[cfg(not(target_arch = "x86_64"))]
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
