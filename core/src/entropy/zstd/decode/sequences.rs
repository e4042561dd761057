//! The sequences section of a block (RFC 8878, 3.1.1.3.2). Each sequence
//! consists of a number of literals, followed by a match with a length and a
//! distance. Each of the three numbers is coded as an entry of a table of
//! finite state entropy, followed by uncompressed bits.

use alloc::vec::Vec;

use super::huffman_streams::Backwards;
use super::{Fault, Output};
use crate::entropy::zstd::fse;

/// Parses the number of sequences at the start of `section`, and returns the
/// bytes after it. A count of zero must be the end of the section.
pub fn count(section: &[u8]) -> Result<(u32, &[u8]), Fault> {
    let (count, rest) = match section {
        [count @ ..0x80, rest @ ..] => (u32::from(*count), rest),
        [0xFF, low, high, rest @ ..] => {
            let above = u32::from(u16::from_le_bytes([*low, *high]));
            (0x7F00 + above, rest)
        }
        [high @ 0x80..=0xFE, low, rest @ ..] => {
            let count = u16::from_be_bytes([high - 0x80, *low]);
            (count.into(), rest)
        }
        _ => return Err(SHORT),
    };
    if count == 0 && !rest.is_empty() {
        return Err(Fault("bytes follow the sequences of a block"));
    }
    Ok((count, rest))
}

/// The state that a block inherits from earlier blocks.
pub struct Sequences {
    /// The tables of literal lengths, offsets and match lengths.
    tables: [Option<Table>; 3],
    /// The last three offsets, starting with the most recent one.
    recent: [usize; 3],
}

impl Sequences {
    /// Creates the state of the first block.
    pub fn new() -> Self {
        Self {
            tables: [None, None, None],
            recent: [1, 4, 8],
        }
    }

    /// Decodes `count` sequences from `section`, which starts after the count,
    /// and appends the resulting bytes to `out`. `literals` are the literals of
    /// the block.
    pub fn decode(
        &mut self,
        count: u32,
        section: &[u8],
        mut literals: &[u8],
        out: &mut Output,
    ) -> Result<(), Fault> {
        let (&modes, mut rest) = section.split_first().ok_or(SHORT)?;
        if modes & 3 != 0 {
            return Err(Fault("reserved bits of a sequences section are set"));
        }
        for (number, shift) in [(0, 6), (1, 4), (2, 2)] {
            let table = &mut self.tables[number];
            rest = NUMBERS[number].read(modes >> shift & 3, rest, table)?;
        }
        let [Some(lengths), Some(offsets), Some(matches)] = &self.tables else {
            return Err(Fault("a block reuses a table, but none precedes it"));
        };
        let mut stream = Backwards::new(rest).map_err(|_| END)?;
        let mut start = |table: &Table| stream.take(table.log).ok_or(END);
        let mut states = [start(lengths)?, start(offsets)?, start(matches)?];
        for left in (0..count).rev() {
            let length = lengths.state(states[0]);
            let offset = offsets.state(states[1]);
            let matched = matches.state(states[2]);
            // At most 31 and 16 bits, out of 57 available ones.
            let mut window = stream.window();
            let distance = offset.base + take(&mut window, offset.more);
            let match_len = matched.base + take(&mut window, matched.more);
            stream.skip(offset.more + matched.more).ok_or(END)?;
            // At most 16 bits, and 26 bits for the next states.
            let mut window = stream.window();
            let literal_len = length.base + take(&mut window, length.more);
            let mut taken = length.more;
            if left > 0 {
                states[0] = length.next + take(&mut window, length.bits);
                states[2] = matched.next + take(&mut window, matched.bits);
                states[1] = offset.next + take(&mut window, offset.bits);
                taken += length.bits + matched.bits + offset.bits;
            }
            stream.skip(taken).ok_or(END)?;
            let copied = literals
                .split_off(..literal_len)
                .ok_or(Fault("a sequence needs more literals than its block has"))?;
            out.claim(copied.len())?.copy_from_slice(copied);
            let distance = recent_or_new(&mut self.recent, distance, literal_len == 0);
            out.repeat(distance, match_len)?;
        }
        if stream.left > 0 {
            return Err(END);
        }
        out.claim(literals.len())?.copy_from_slice(literals);
        Ok(())
    }
}

/// Returns the distance that `value` represents. A value of up to 3 selects one
/// of the `recent` distances; the selection is shifted by one if the match
/// follows no literals (3.1.1.5).
fn recent_or_new(recent: &mut [usize; 3], value: usize, no_literals: bool) -> usize {
    let [first, second, third] = *recent;
    let (distance, others) = match (value, no_literals) {
        (1, false) => return first,
        (1, true) | (2, false) => (second, [first, third]),
        (2, true) | (3, false) => (third, [first, second]),
        // Zero if the first distance was 1; `Output::repeat` rejects it.
        (3, true) => (first - 1, [first, second]),
        _ => (value - 3, [first, second]),
    };
    *recent = [distance, others[0], others[1]];
    distance
}

/// Removes the topmost bits from `window` and returns them.
#[inline(always)]
fn take(window: &mut u64, bits: u32) -> usize {
    // Shifting in two steps avoids a shift by 64 if `bits` is 0.
    let taken = *window >> 1 >> (63 - bits);
    *window <<= bits;
    #[allow(clippy::cast_possible_truncation)] // at most 31 bits
    let taken = taken as usize;
    taken
}

const SHORT: Fault = Fault("a block ends before its sequences");
const END: Fault = Fault("the sequences of a block do not end with its last byte");

/// The numbers that a code represents: `base` plus the value of `more`
/// uncompressed bits.
#[derive(Clone, Copy)]
struct Span {
    base: usize,
    more: u32,
}

/// The parameters for decoding one of the three numbers.
pub struct Number {
    /// The span of each code.
    spans: &'static [Span],
    /// The default distribution of the codes and the binary logarithm of its
    /// table size, for blocks that do not describe a distribution.
    usual: (&'static [i16], u32),
    /// The maximum number of codes, for tables of 32 states, 64 states and so
    /// on.
    max_codes: &'static [usize],
}

/// The literal length, the offset and the match length, in the order of their
/// tables.
pub(crate) static NUMBERS: [Number; 3] = [
    Number {
        spans: &spans::<36>(0, &LENGTH_BITS),
        usual: (&LENGTH_SHARES, 6),
        max_codes: &[36; 5],
    },
    Number {
        spans: &OFFSETS,
        usual: (&OFFSET_SHARES, 5),
        max_codes: &[32; 4],
    },
    Number {
        spans: &spans::<53>(3, &MATCH_BITS),
        usual: (&MATCH_SHARES, 6),
        max_codes: &[53; 5],
    },
];

impl Number {
    /// Sets `table` as specified by `mode`, reading its description at the
    /// start of `bytes` if there is one, and returns the bytes after the
    /// description. If the mode is to repeat the previous table, it is left
    /// unchanged.
    pub fn read<'a>(
        &self,
        mode: u8,
        bytes: &'a [u8],
        table: &mut Option<Table>,
    ) -> Result<&'a [u8], Fault> {
        let (fresh, rest) = match mode {
            0 => (self.table(self.usual.0, self.usual.1), bytes),
            1 => {
                let (&code, rest) = bytes.split_first().ok_or(CODE)?;
                let &span = self.spans.get(usize::from(code)).ok_or(CODE)?;
                (Table::of_one(span), rest)
            }
            2 => {
                let mut shares = [0; 53];
                let (log, rest) = fse::read_distribution(bytes, self.max_codes, &mut shares)?;
                (self.table(&shares, log), rest)
            }
            _ => return Ok(bytes),
        };
        *table = Some(fresh);
        Ok(rest)
    }

    fn table(&self, shares: &[i16], log: u32) -> Table {
        let states = fse::states(shares, log).into_iter().map(|state| {
            let Span { base, more } = self.spans[usize::from(state.value)];
            NumberState {
                base,
                more,
                bits: state.bits,
                next: state.base,
            }
        });
        Table {
            states: states.collect(),
            log,
        }
    }
}

const CODE: Fault = Fault("a code of a sequence does not exist");

/// The decoding table of one of the numbers.
pub struct Table {
    states: Vec<NumberState>,
    /// Binary logarithm of the number of states.
    pub log: u32,
}

impl Table {
    /// Returns a table that always decodes to the code of this span.
    fn of_one(Span { base, more }: Span) -> Self {
        let state = NumberState {
            base,
            more,
            bits: 0,
            next: 0,
        };
        Self {
            states: alloc::vec![state],
            log: 0,
        }
    }

    #[inline]
    pub fn state(&self, number: usize) -> NumberState {
        self.states[number]
    }
}

/// A state of a table. Its number is `base` plus the next `more` bits, and the
/// next state is `next` plus the following `bits` bits.
#[derive(Clone, Copy)]
pub struct NumberState {
    pub base: usize,
    pub more: u32,
    pub bits: u32,
    pub next: usize,
}

/// Builds consecutive spans. The first codes represent one number each,
/// starting with `first`; the last ones represent `1 << bits` numbers each.
const fn spans<const CODES: usize>(first: usize, bits: &[u32]) -> [Span; CODES] {
    let mut spans = [Span { base: 0, more: 0 }; CODES];
    let mut base = first;
    let mut code = 0;
    while code < CODES {
        let single = CODES - bits.len();
        let more = if code < single {
            0
        } else {
            bits[code - single]
        };
        spans[code] = Span { base, more };
        base += 1 << more;
        code += 1;
    }
    spans
}

const LENGTH_BITS: [u32; 20] = [
    1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
];
const MATCH_BITS: [u32; 21] = [
    1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
];

/// Code n represents a one followed by n bits.
const OFFSETS: [Span; 32] = {
    let mut spans = [Span { base: 1, more: 0 }; 32];
    let mut code = 1;
    while code < 32 {
        spans[code] = Span {
            base: 2 * spans[code - 1].base,
            more: spans[code - 1].more + 1,
        };
        code += 1;
    }
    spans
};

// The default distributions of the codes, for blocks without their own
// (3.1.1.3.2.2).
const LENGTH_SHARES: [i16; 36] = [
    4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1,
    -1, -1, -1, -1,
];
const OFFSET_SHARES: [i16; 29] = [
    1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1,
];
const MATCH_SHARES: [i16; 53] = [
    1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1,
];
