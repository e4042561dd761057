//! The streams of a Huffman code (RFC 8878, 4.2.2): bits of the last symbol
//! first, since they are read from their end.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::huffman::Code;

/// Symbols of a stream that are written between two stores: their codes and
/// the rest of a byte fit a word.
const GROUP: usize = 4;
/// Most different values, side by side, for which there is a table of pairs.
const PAIR_VALUES: usize = 64;

/// A code in the form that writes it fastest.
pub enum Streams {
    /// Every value below `1 << bits` has that many bits: its own.
    Flat { bits: u32 },
    /// Values from `first` on, two at a time: the codes of both, and above
    /// [`LEN_SHIFT`] their bits.
    Pairs {
        first: u8,
        table: Box<[u32; PAIR_VALUES * PAIR_VALUES]>,
    },
    /// Any values one by one, in the same form.
    Single(Box<[u32; 256]>),
}

const LEN_SHIFT: u32 = 24;

impl Streams {
    /// For symbols that `counts` has above 0, which have codes.
    pub fn new(code: &Code, counts: &[u32; 256]) -> Self {
        if let Some(bits) = code.flat_bits() {
            return Self::Flat { bits };
        }
        let entry = |symbol: u8| {
            u32::from(code.code(symbol)) | u32::from(code.len_bits(symbol)) << LEN_SHIFT
        };
        let first = counts.iter().position(|&count| count > 0).unwrap_or(0);
        let last = counts.iter().rposition(|&count| count > 0).unwrap_or(0);
        if last - first >= PAIR_VALUES {
            let mut table = Box::new([0; 256]);
            for (symbol, place) in (0..=255).zip(table.iter_mut()) {
                *place = entry(symbol);
            }
            return Self::Single(table);
        }
        let first = first.to_le_bytes()[0];
        let mut entries = [0u32; PAIR_VALUES];
        for (k, place) in (0..=last.to_le_bytes()[0] - first).zip(entries.iter_mut()) {
            *place = entry(first + k);
        }
        let mut table: Box<[u32; PAIR_VALUES * PAIR_VALUES]> = vec![0; PAIR_VALUES * PAIR_VALUES]
            .try_into()
            .unwrap_or_else(|_| unreachable!());
        let used = last + 1 - usize::from(first);
        for (second, row) in entries[..used]
            .iter()
            .zip(table.chunks_exact_mut(PAIR_VALUES))
        {
            let len = second >> LEN_SHIFT;
            let code = second & ((1 << LEN_SHIFT) - 1);
            for (place, one) in row.iter_mut().zip(&entries[..used]) {
                // The second symbol is written first.
                *place = code
                    + ((one & 0xFFFF) << len)
                    + (one >> LEN_SHIFT << LEN_SHIFT)
                    + (len << LEN_SHIFT);
            }
        }
        Self::Pairs { first, table }
    }

    /// Appends one stream.
    pub fn write(&self, symbols: &[u8], scratch: &mut Scratch, out: &mut Vec<u8>) {
        let mut sink = Sink::new(scratch, symbols.len());
        match self {
            Self::Flat { bits } => flat(*bits, symbols, &mut sink),
            Self::Pairs { first, table } => pairs(*first, table, symbols, &mut sink),
            Self::Single(table) => single(table, symbols, &mut sink),
        }
        sink.finish(out);
    }
}

fn flat(bits: u32, symbols: &[u8], sink: &mut Sink) {
    let (rest, groups) = symbols.as_rchunks::<8>();
    for group in groups.iter().rev() {
        // The last symbol lowest; then neighbours are pushed together.
        let word = u64::from_be_bytes(*group);
        const BYTES: u64 = 0x00FF_00FF_00FF_00FF;
        const PAIRS: u64 = 0x0000_FFFF_0000_FFFF;
        let word = word & BYTES | (word >> 8 & BYTES) << bits;
        let word = word & PAIRS | (word >> 16 & PAIRS) << (2 * bits);
        let word = word & 0xFFFF_FFFF | (word >> 32) << (4 * bits);
        // Eight symbols fill whole bytes.
        sink.bytes(word, bits as usize);
    }
    for &symbol in rest.iter().rev() {
        sink.hold(symbol.into(), bits);
        sink.flush();
    }
}

fn pairs(first: u8, table: &[u32; PAIR_VALUES * PAIR_VALUES], symbols: &[u8], sink: &mut Sink) {
    let (rest, groups) = symbols.as_rchunks::<GROUP>();
    let base = u32::from_le_bytes([first; 4]);
    for group in groups.iter().rev() {
        let word = u32::from_le_bytes(*group).wrapping_sub(base);
        let index = |pair: u32| (pair & 0x3F | pair >> 2 & 0xFC0) as usize;
        for entry in [table[index(word >> 16)], table[index(word & 0xFFFF)]] {
            sink.hold((entry & ((1 << LEN_SHIFT) - 1)).into(), entry >> LEN_SHIFT);
        }
        sink.flush();
    }
    for &symbol in rest.iter().rev() {
        // Row and column of a symbol: its pair with itself, halved.
        let k = usize::from(symbol.wrapping_sub(first)) % PAIR_VALUES;
        let both = table[k * PAIR_VALUES + k];
        let bits = both >> LEN_SHIFT >> 1;
        sink.hold(u64::from(both) & ((1 << bits) - 1), bits);
        sink.flush();
    }
}

fn single(table: &[u32; 256], symbols: &[u8], sink: &mut Sink) {
    let (rest, groups) = symbols.as_rchunks::<GROUP>();
    for group in groups.iter().rev() {
        for &symbol in group.iter().rev() {
            let entry = table[usize::from(symbol)];
            sink.hold((entry & 0xFFFF).into(), entry >> LEN_SHIFT);
        }
        sink.flush();
    }
    for &symbol in rest.iter().rev() {
        let entry = table[usize::from(symbol)];
        sink.hold((entry & 0xFFFF).into(), entry >> LEN_SHIFT);
        sink.flush();
    }
}

/// Where a stream grows; kept from one to the next.
#[derive(Default)]
pub struct Scratch(Vec<u8>);

/// Bits on their way into a buffer with room enough.
struct Sink<'a> {
    room: &'a mut [u8],
    at: usize,
    held: u64,
    held_bits: u32,
}

impl<'a> Sink<'a> {
    fn new(scratch: &'a mut Scratch, symbols: usize) -> Self {
        // At most eleven bits each, the mark, and what a store writes beyond.
        let room = symbols * 11 / 8 + 24;
        if scratch.0.len() < room {
            scratch.0.resize(room, 0);
        }
        Self {
            room: &mut scratch.0,
            at: 0,
            held: 0,
            held_bits: 0,
        }
    }

    #[inline(always)]
    fn hold(&mut self, code: u64, bits: u32) {
        self.held |= code << self.held_bits;
        self.held_bits += bits;
    }

    #[inline(always)]
    fn flush(&mut self) {
        self.store(self.held);
        self.at += (self.held_bits / 8) as usize;
        self.held >>= self.held_bits & 0x38;
        self.held_bits &= 7;
    }

    /// Whole bytes, while no bits are held.
    #[inline(always)]
    fn bytes(&mut self, word: u64, len: usize) {
        self.store(word);
        self.at += len;
    }

    #[inline(always)]
    fn store(&mut self, word: u64) {
        if let Some(place) = self.room.get_mut(self.at..self.at + 8) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Sets the bit that marks the end and appends all to `out`.
    fn finish(mut self, out: &mut Vec<u8>) {
        self.hold(1, 1);
        self.held_bits = self.held_bits.next_multiple_of(8);
        self.flush();
        out.extend_from_slice(&self.room[..self.at]);
    }
}
