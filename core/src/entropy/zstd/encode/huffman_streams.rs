//! Writes the streams of a Huffman code (RFC 8878, 4.2.2). The bits of the last
//! symbol come first, because streams are read from their end.
//!
//! In a flat code, every value below a power of two is its own code. This
//! module decides whether a flat code is best, and writes it: eight symbols
//! fill whole bytes and are packed with shifts.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::huffman::{Code, lens};
#[cfg(target_arch = "x86_64")]
use super::narrow_codes::Narrow;

/// Number of symbols of a stream that are written between two stores. Their
/// codes and a partly filled byte fit in a word.
const GROUP: usize = 4;
/// The largest range of values that gets a table of pairs.
const PAIR_VALUES: usize = 64;

/// A code in the representation that is fastest to write.
pub enum Streams {
    /// A flat code: every value below `1 << bits` is its own code.
    Flat {
        bits: u32,
    },
    /// A table of pairs of values, counted from `first`. An entry holds both
    /// codes, and the number of their bits above [`LEN_SHIFT`].
    Pairs {
        first: u8,
        table: Box<[u32; PAIR_VALUES * PAIR_VALUES]>,
    },
    Single(Single),
    /// Tables for vectors, and a table of single values for codes that are too
    /// long for them.
    #[cfg(target_arch = "x86_64")]
    Narrow(Narrow, Single),
}

const LEN_SHIFT: u32 = 24;

impl Streams {
    /// Builds the table for the symbols that occur in `counts`. All of them
    /// must have codes.
    pub fn new(code: &Code, counts: &[u64; 256]) -> Self {
        if let Some(bits) = code.flat_bits() {
            return Self::Flat { bits };
        }
        let first = counts.iter().position(|&count| count > 0).unwrap_or(0);
        let last = counts.iter().rposition(|&count| count > 0).unwrap_or(0);
        let used = last + 1 - first;
        if used > PAIR_VALUES {
            return Self::Single(Single::new(code));
        }
        let first = first.to_le_bytes()[0];
        #[cfg(target_arch = "x86_64")]
        if let Some(narrow) = Narrow::new(code, first, used) {
            return Self::Narrow(narrow, Single::new(code));
        }
        let mut entries = [0u32; PAIR_VALUES];
        for (k, slot) in (0..=last.to_le_bytes()[0] - first).zip(entries.iter_mut()) {
            *slot = entry(code, first + k);
        }
        let mut table: Box<[u32; PAIR_VALUES * PAIR_VALUES]> = vec![0; PAIR_VALUES * PAIR_VALUES]
            .try_into()
            .unwrap_or_else(|_| unreachable!());
        for (second, row) in entries[..used]
            .iter()
            .zip(table.chunks_exact_mut(PAIR_VALUES))
        {
            let len = second >> LEN_SHIFT;
            let code = second & ((1 << LEN_SHIFT) - 1);
            for (slot, one) in row.iter_mut().zip(&entries[..used]) {
                // The second symbol is written first.
                *slot = code
                    + ((one & 0xFFFF) << len)
                    + (one >> LEN_SHIFT << LEN_SHIFT)
                    + (len << LEN_SHIFT);
            }
        }
        Self::Pairs { first, table }
    }

    /// Appends one stream.
    pub fn write(&self, symbols: &[u8], scratch: &mut Scratch, out: &mut Vec<u8>) {
        let mut sinks = scratch.sinks([symbols.len()]);
        self.fill([symbols], &mut sinks);
        let [sink] = sinks;
        sink.finish(out);
    }

    /// Appends four streams, with a quarter of `symbols` each, and returns
    /// their lengths in bytes.
    pub(crate) fn write_four(
        &self,
        symbols: &[u8],
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> [usize; 4] {
        let quarter = symbols.len().div_ceil(4);
        let parts: [&[u8]; 4] = core::array::from_fn(|k| {
            &symbols[(k * quarter).min(symbols.len())..((k + 1) * quarter).min(symbols.len())]
        });
        let [one, two, three, four] = parts;
        let mut lens = [0; 4];
        // Two streams are written side by side, because each step depends only
        // on the previous one of its own stream. More than two would need more
        // registers than there are.
        for (lens, parts) in lens.chunks_exact_mut(2).zip([[one, two], [three, four]]) {
            let mut sinks = scratch.sinks([quarter; 2]);
            self.fill(parts, &mut sinks);
            for (len, sink) in lens.iter_mut().zip(sinks) {
                *len = sink.finish(out);
            }
        }
        lens
    }

    fn fill<const N: usize>(&self, parts: [&[u8]; N], sinks: &mut [Sink; N]) {
        match self {
            Self::Flat { bits } => {
                for (part, sink) in parts.into_iter().zip(sinks) {
                    write_flat(*bits, part, sink);
                }
            }
            Self::Pairs { first, table } => lockstep(&Pairs(*first, table), parts, sinks),
            Self::Single(table) => lockstep(table, parts, sinks),
            #[cfg(target_arch = "x86_64")]
            Self::Narrow(narrow, table) => {
                let parts = narrow.write(table, parts, sinks);
                lockstep(table, parts, sinks);
            }
        }
    }
}

/// Returns the code of a symbol, and its length above [`LEN_SHIFT`].
fn entry(code: &Code, symbol: u8) -> u32 {
    u32::from(code.code(symbol)) | u32::from(code.len_bits(symbol)) << LEN_SHIFT
}

/// Writes symbols of a code that is not flat.
trait Coder {
    fn group(&self, group: &[u8; GROUP], sink: &mut Sink);
    fn one(&self, symbol: u8, sink: &mut Sink);
}

/// Writes `N` streams side by side, one group of each at a time.
#[inline(always)]
fn lockstep<const N: usize>(coder: &impl Coder, parts: [&[u8]; N], sinks: &mut [Sink; N]) {
    let parts = parts.map(|part| part.as_rchunks::<GROUP>());
    let common = parts
        .iter()
        .map(|(_, groups)| groups.len())
        .min()
        .unwrap_or(0);
    let tails = parts.map(|(_, groups)| &groups[groups.len() - common..]);
    for k in (0..common).rev() {
        for (tail, sink) in tails.iter().zip(&mut *sinks) {
            coder.group(&tail[k], sink);
        }
    }
    for ((rest, groups), sink) in parts.into_iter().zip(sinks) {
        for group in groups[..groups.len() - common].iter().rev() {
            coder.group(group, sink);
        }
        for &symbol in rest.iter().rev() {
            coder.one(symbol, sink);
        }
    }
}

struct Pairs<'a>(u8, &'a [u32; PAIR_VALUES * PAIR_VALUES]);

impl Coder for Pairs<'_> {
    #[inline(always)]
    fn group(&self, group: &[u8; GROUP], sink: &mut Sink) {
        let Self(first, table) = self;
        let base = u32::from_le_bytes([*first; 4]);
        let word = u32::from_le_bytes(*group).wrapping_sub(base);
        let index = |pair: u32| (pair & 0x3F | pair >> 2 & 0xFC0) as usize;
        for entry in [table[index(word >> 16)], table[index(word & 0xFFFF)]] {
            sink.hold((entry & ((1 << LEN_SHIFT) - 1)).into(), entry >> LEN_SHIFT);
        }
        sink.flush();
    }

    fn one(&self, symbol: u8, sink: &mut Sink) {
        // The entry of a symbol paired with itself holds its code twice, so
        // half of it is the code.
        let k = usize::from(symbol.wrapping_sub(self.0)) % PAIR_VALUES;
        let both = self.1[k * PAIR_VALUES + k];
        let bits = both >> LEN_SHIFT >> 1;
        sink.hold(u64::from(both) & ((1 << bits) - 1), bits);
        sink.flush();
    }
}

/// A table of single values, with the code of each and its length above
/// [`LEN_SHIFT`].
pub struct Single(Box<[u32; 256]>);

impl Single {
    pub(super) fn new(code: &Code) -> Self {
        let mut table = Box::new([0; 256]);
        for (symbol, slot) in (0..=255).zip(table.iter_mut()) {
            *slot = entry(code, symbol);
        }
        Self(table)
    }

    /// Writes whole groups of symbols.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn groups(&self, symbols: &[u8], sink: &mut Sink) {
        for group in symbols.as_rchunks::<GROUP>().1.iter().rev() {
            self.group(group, sink);
        }
    }
}

impl Coder for Single {
    #[inline(always)]
    fn group(&self, group: &[u8; GROUP], sink: &mut Sink) {
        for &symbol in group.iter().rev() {
            let entry = self.0[usize::from(symbol)];
            sink.hold((entry & 0xFFFF).into(), entry >> LEN_SHIFT);
        }
        sink.flush();
    }

    fn one(&self, symbol: u8, sink: &mut Sink) {
        let entry = self.0[usize::from(symbol)];
        sink.hold((entry & 0xFFFF).into(), entry >> LEN_SHIFT);
        sink.flush();
    }
}

/// A buffer for building streams. It is reused for the next block.
#[derive(Default)]
pub struct Scratch(Vec<u8>);

/// Writes bits to a buffer that has space for a whole stream.
#[derive(Default)]
pub struct Sink<'a> {
    pub buf: &'a mut [u8],
    pub at: usize,
    held: u64,
    held_bits: u32,
}

impl Scratch {
    /// Returns a sink for each stream, given the numbers of symbols.
    fn sinks<const N: usize>(&mut self, symbols: [usize; N]) -> [Sink<'_>; N] {
        // At most eleven bits per symbol, the end mark, and the bytes written
        // past the end.
        let capacities = symbols.map(|symbols| symbols * 11 / 8 + 24 + SLACK_BYTES);
        let all = capacities.iter().sum();
        if self.0.len() < all {
            self.0.resize(all, 0);
        }
        let mut rest = &mut self.0[..];
        capacities.map(|capacity| Sink {
            buf: rest.split_off_mut(..capacity).unwrap_or_default(),
            at: 0,
            held: 0,
            held_bits: 0,
        })
    }
}

impl Sink<'_> {
    #[inline(always)]
    pub fn hold(&mut self, code: u64, bits: u32) {
        self.held |= code << self.held_bits;
        self.held_bits += bits;
    }

    #[inline(always)]
    pub fn flush(&mut self) {
        self.store(self.held);
        self.at += (self.held_bits / 8) as usize;
        self.held >>= self.held_bits & 0x38;
        self.held_bits &= 7;
    }

    #[inline(always)]
    fn store(&mut self, word: u64) {
        if let Some(dest) = self.buf.get_mut(self.at..self.at + 8) {
            dest.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Appends the bit that marks the end, copies the stream to `out`, and
    /// returns its length in bytes.
    fn finish(mut self, out: &mut Vec<u8>) -> usize {
        self.hold(1, 1);
        self.held_bits = self.held_bits.next_multiple_of(8);
        self.flush();
        out.extend_from_slice(&self.buf[..self.at]);
        self.at
    }
}

/// Minimum length of a block whose samples are representative.
const MIN_SAMPLED_BYTES: usize = 1 << 15;

/// Returns the number of bits of a flat code (`Code::of_bits`) for a block
/// whose shortest code is flat or nearly flat, and `None` for any other block.
/// A result of 8 bits means that the block is incompressible.
///
/// The decision uses every eighth line of 64 bytes: the best code of one half
/// of these lines must not compress the other half. Counting the whole block
/// would take longer than writing it.
pub(crate) fn even_bits(block: &[u8]) -> Option<u32> {
    if block.len() < MIN_SAMPLED_BYTES {
        return None;
    }
    let bits = u8::BITS - block.iter().fold(0, |all, byte| all | byte).leading_zeros();
    let mut halves = [[0u64; 256]; 2];
    // A value that is far more frequent than the others is detected early.
    let (start, _) = block.split_at(1 << 10);
    start
        .iter()
        .for_each(|&byte| halves[0][usize::from(byte)] += 1);
    if halves[0].iter().any(|&count| count > 1 << (13 - bits)) {
        return None;
    }
    let (lines, _) = block.as_chunks::<64>();
    for pair in lines.chunks_exact(16) {
        for (counts, line) in halves.iter_mut().zip(pair.iter().step_by(8)) {
            line.iter().for_each(|&byte| counts[usize::from(byte)] += 1);
        }
    }
    let lens = lens(&halves[0])?;
    let longest = u64::from(lens.iter().copied().max().unwrap_or(0));
    let (mut by_code, mut by_flat) = (0, 0);
    for (&count, &len) in halves[1].iter().zip(&lens) {
        by_flat += count * u64::from(bits);
        by_code += count * if len == 0 { longest } else { len.into() };
    }
    // The description of another code takes about a thousandth of the block.
    (by_code >= by_flat - by_flat / 1024).then_some(bits)
}

/// Number of symbols of a flat code that always fill whole bytes.
const FLAT_GROUP: usize = 8;
/// Number of groups that are packed between two checks of the remaining space.
const RUN: usize = 8;
/// Number of bytes that may be written past the end of a stream.
pub(crate) const SLACK_BYTES: usize = 8 * RUN;

/// Writes one stream of symbols of `bits` bits each, 1 to 7.
pub(crate) fn write_flat(bits: u32, symbols: &[u8], sink: &mut Sink) {
    let (rest, groups) = symbols.as_rchunks::<FLAT_GROUP>();
    match bits {
        // The mantissas of bfloat16 have seven bits. Passing a constant lets
        // the compiler use constant shifts.
        7 => put_together(7, sevens_at_once(groups, sink), sink),
        _ => put_together(bits, groups, sink),
    }
    for &symbol in rest.iter().rev() {
        sink.hold(symbol.into(), bits);
        sink.flush();
    }
}

/// Packs groups of seven-bit symbols with vectors, and returns the remaining
/// groups, which precede the packed ones.
#[cfg(target_arch = "x86_64")]
fn sevens_at_once<'a>(groups: &'a [[u8; FLAT_GROUP]], sink: &mut Sink) -> &'a [[u8; FLAT_GROUP]] {
    use crate::entropy::zstd::avx2::{CODED_BYTES, SYMBOLS, pack};
    let (_, symbols) = groups.as_flattened().as_rchunks::<SYMBOLS>();
    let done = pack(symbols, &mut sink.buf[sink.at..]).unwrap_or(0);
    sink.at += done * CODED_BYTES;
    &groups[..groups.len() - done * SYMBOLS / FLAT_GROUP]
}

#[cfg(not(target_arch = "x86_64"))]
fn sevens_at_once<'a>(groups: &'a [[u8; FLAT_GROUP]], _: &mut Sink) -> &'a [[u8; FLAT_GROUP]] {
    groups
}

#[inline(always)]
fn put_together(bits: u32, groups: &[[u8; FLAT_GROUP]], sink: &mut Sink) {
    let step = bits as usize;
    let (rest, runs) = groups.as_rchunks::<RUN>();
    for run in runs.iter().rev() {
        if let Some(dest) = sink.buf[sink.at..].first_chunk_mut::<{ 8 * RUN }>() {
            for (k, group) in run.iter().rev().enumerate() {
                // The next group overwrites the surplus bytes.
                dest[k * step..k * step + 8].copy_from_slice(&together(bits, group));
            }
        }
        sink.at += RUN * step;
    }
    for group in rest.iter().rev() {
        if let Some(dest) = sink.buf[sink.at..].first_chunk_mut() {
            *dest = together(bits, group);
        }
        sink.at += step;
    }
}

/// Packs the symbols of a group into `bits` bits each. The last symbol is the
/// lowest.
#[inline(always)]
fn together(bits: u32, group: &[u8; FLAT_GROUP]) -> [u8; 8] {
    const BYTES: u64 = 0x00FF_00FF_00FF_00FF;
    const PAIRS: u64 = 0x0000_FFFF_0000_FFFF;
    let word = u64::from_be_bytes(*group);
    let word = word & BYTES | (word >> 8 & BYTES) << bits;
    let word = word & PAIRS | (word >> 16 & PAIRS) << (2 * bits);
    let word = word & 0xFFFF_FFFF | (word >> 32) << (4 * bits);
    word.to_le_bytes()
}
