//! The three numbers of a sequence. Each is coded as an entry of a table of
//! finite state entropy, followed by uncompressed bits (RFC 8878, 3.1.1.3.2.1).

use alloc::vec::Vec;

use super::{Fault, fse_distribution};
use crate::entropy::zstd::fse;

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
pub static NUMBERS: [Number; 3] = [
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
                let (log, rest) = fse_distribution::read(bytes, self.max_codes, &mut shares)?;
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
            State {
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
    states: Vec<State>,
    /// Binary logarithm of the number of states.
    pub log: u32,
}

impl Table {
    /// Returns a table that always decodes to the code of this span.
    fn of_one(Span { base, more }: Span) -> Self {
        let state = State {
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
    pub fn state(&self, number: usize) -> State {
        self.states[number]
    }
}

/// A state of a table. Its number is `base` plus the next `more` bits, and the
/// next state is `next` plus the following `bits` bits.
#[derive(Clone, Copy)]
pub struct State {
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
