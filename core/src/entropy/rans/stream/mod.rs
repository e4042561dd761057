//! Order-0 streams, whose symbols belong to four states alternately. The states
//! share one sequence of bytes (5.6).

use alloc::vec::Vec;

use super::state::{self, Input, LOWER, Supply, WINDOW_SYMBOLS};
use super::table::Lookup;
use crate::Result;
use crate::bytes::Cursor;
use crate::engine::Engine;
use crate::entropy::histogram::entropy_bits;
#[cfg(target_arch = "x86_64")]
use crate::entropy::rans::state::PackedCode;
use crate::entropy::rans::state::{Divided, Emitted};
use crate::entropy::rans::table::Code;
use crate::kernel::{self, Kernel};

#[cfg(test)]
mod tests;

/// Number of bits of a probability of order 0.
pub(super) const BITS: u32 = 14;
pub(super) const SLOTS: usize = 1 << BITS;

pub(super) const STATES: usize = 4;
/// The maximum number of streams that are decoded side by side.
pub(super) const GROUP_STREAMS: usize = 8;
/// Length in bytes of the initial states, which every stream has.
pub(super) const HEAD_BYTES: u64 = 4 * STATES as u64;

/// Returns the size of a stream of `len_bytes` bytes, from which its capacity follows
/// (see [`super::state`]).
pub(super) fn supply(len_bytes: usize) -> Supply {
    Supply {
        bytes: (len_bytes as u64).saturating_sub(HEAD_BYTES),
        states: 4,
    }
}

/// A stream, the lookup tables of its symbols, and the output for all of them.
pub(super) struct Coded<'a> {
    pub stream: &'a [u8],
    pub lookup: &'a Lookup<SLOTS>,
    pub out: &'a mut [u8],
}

/// Divides streams into groups that are decoded side by side. Groups have eight
/// streams, or fewer at the end; their length is even wherever possible.
pub(super) fn groups<T>(streams: impl ExactSizeIterator<Item = T>) -> Vec<Vec<T>> {
    let mut left = streams.len();
    let mut room = 0;
    let mut groups: Vec<Vec<T>> = Vec::new();
    for stream in streams {
        match groups.last_mut() {
            Some(group) if room > 0 => group.push(stream),
            _ => {
                room = group_len(left);
                groups.push([stream].into());
            }
        }
        room -= 1;
        left -= 1;
    }
    groups
}

/// Returns the length of the first group if `left` streams are left.
fn group_len(left: usize) -> usize {
    match left {
        1..=3 => left,
        // A remaining group of two would be no faster than decoding
        // sequentially.
        10 | 11 => 6,
        _ => GROUP_STREAMS.min(left / 2 * 2),
    }
}

/// Decodes a group of streams. Each symbol depends on the one four positions earlier in
/// its own stream, so decoding several streams side by side takes little more time than
/// decoding one.
pub(super) fn decode(streams: Vec<Coded>) -> Result<()> {
    let running = streams.into_iter().map(Running::new);
    let mut running: Vec<Running> = running.collect::<Result<_>>()?;
    decode_pairs(&mut running);
    let (pairs, _) = running.as_chunks_mut();
    for pair in pairs {
        kernel::run(Pair(pair))?;
    }
    running.into_iter().try_for_each(Running::finish)
}

/// Decodes two or more pairs of streams with vectors, if the processor supports
/// them. This decodes most symbols, but not the last ones.
fn decode_pairs(streams: &mut [Running]) {
    #[cfg(target_arch = "x86_64")]
    {
        use super::avx2;
        use crate::avx2::call;

        let (pairs, _) = streams.as_chunks_mut::<2>();
        match pairs {
            [a, b] => call!(avx2::decode::<2>, [a, b]; else ()),
            [a, b, c] => call!(avx2::decode::<3>, [a, b, c]; else ()),
            [a, b, c, d] => call!(avx2::decode::<4>, [a, b, c, d]; else ()),
            _ => {}
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = streams;
}

/// Decodes groups of symbols of two streams until one of them has no groups
/// left.
struct Pair<'r, 'a>(&'r mut [Running<'a>; 2]);

impl Kernel for Pair<'_, '_> {
    type Output = Result<()>;

    #[inline(always)]
    fn run(self) -> Result<()> {
        let Self([first, second]) = self;
        let rounds = first.groups.len().min(second.groups.len());
        for _ in 0..rounds {
            first.step()?;
            second.step()?;
        }
        Ok(())
    }
}

/// A stream that is being decoded.
pub(super) struct Running<'a> {
    pub(super) states: [u32; STATES],
    pub(super) input: Input<'a>,
    pub(super) lookup: &'a Lookup<SLOTS>,
    /// The output for the remaining symbols, in groups of one per state.
    pub(super) groups: core::slice::IterMut<'a, [u8; WINDOW_SYMBOLS]>,
    rest: &'a mut [u8],
}

impl<'a> Running<'a> {
    fn new(coded: Coded<'a>) -> Result<Self> {
        let mut cursor = Cursor::new(coded.stream);
        let mut states = [LOWER; STATES];
        for state in &mut states {
            *state = state::read(&mut cursor)?;
        }
        let (groups, rest) = coded.out.as_chunks_mut();
        Ok(Self {
            states,
            input: Input(cursor.rest()),
            lookup: coded.lookup,
            groups: groups.iter_mut(),
            rest,
        })
    }

    #[inline(always)]
    fn step(&mut self) -> Result<()> {
        let Some(group) = self.groups.next() else {
            return Ok(());
        };
        let mut window = self.input.window();
        for (state, byte) in self.states.iter_mut().zip(group) {
            *byte = window.next(state, self.lookup);
        }
        self.input.consume(window)
    }

    /// Decodes the remaining symbols and checks the end conditions.
    fn finish(mut self) -> Result<()> {
        while self.groups.len() > 0 {
            self.step()?;
        }
        let mut window = self.input.window();
        for (state, byte) in self.states.iter_mut().zip(self.rest) {
            *byte = window.next(state, self.lookup);
        }
        self.input.consume(window)?;
        self.input.finish(&self.states)
    }
}

/// Returns the expected length in bytes of a stream of symbols with these
/// counts.
pub(super) fn expected_len_bytes(counts: &[u64; 256]) -> usize {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a plane in memory
    let coded = (entropy_bits(counts) / 8.0) as usize;
    4 * STATES + coded
}

/// Number of streams that are encoded side by side, which is enough to keep a
/// processor busy.
pub(super) const SIDE_BY_SIDE: usize = 2;

/// Symbols to encode as one stream, and the codes of all symbols that occur.
#[derive(Clone, Copy)]
pub(super) struct Plain<'a> {
    pub symbols: &'a [u8],
    pub codes: &'a [Code; 256],
}

/// Encodes at most [`SIDE_BY_SIDE`] streams together.
pub(super) fn encode<E: Engine>(engine: &E, streams: &[Plain]) -> Vec<Vec<u8>> {
    let begun = streams.iter().map(|plain| Encoding::new(engine, *plain));
    let mut streams: Vec<Encoding> = begun.collect();
    encode_vectors(&mut streams);
    let finished = streams.into_iter().map(|stream| stream.finish(engine));
    finished.collect()
}

/// Encodes with vectors, if the processor supports them. This encodes most
/// symbols, but not the first ones of every stream.
fn encode_vectors(streams: &mut [Encoding]) {
    #[cfg(target_arch = "x86_64")]
    {
        use crate::avx2::call;
        use crate::entropy::rans::avx2;

        match streams {
            [one] => call!(avx2::encode::<1>, [one]; else ()),
            [one, two] => call!(avx2::encode::<2>, [one, two]; else ()),
            _ => {}
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = streams;
}

/// A stream that is being encoded.
pub(super) struct Encoding<'a> {
    pub states: [u32; STATES],
    pub emitted: Emitted,
    /// The remaining symbols, in groups of one per state.
    pub groups: core::slice::Iter<'a, [u8; STATES]>,
    codes: [Divided; 256],
    #[cfg(target_arch = "x86_64")]
    pub packed: [PackedCode; 256],
}

impl<'a> Encoding<'a> {
    /// Starts a stream by encoding the symbols after the last whole group.
    fn new<E: Engine>(engine: &E, Plain { symbols, codes }: Plain<'a>) -> Self {
        let codes = codes.map(|code| Divided::new(code, BITS));
        let (groups, rest) = symbols.as_chunks();
        let mut states = [LOWER; STATES];
        let mut emitted = Emitted::in_buffer(engine.recycled(), symbols.len());
        let rest = rest.iter().map(|symbol| &codes[usize::from(*symbol)]);
        emitted.push(states.iter_mut().zip(rest).rev());
        Self {
            states,
            emitted,
            groups: groups.iter(),
            #[cfg(target_arch = "x86_64")]
            packed: codes.map(PackedCode::new),
            codes,
        }
    }

    /// Encodes the remaining groups and returns the stream.
    fn finish<E: Engine>(mut self, engine: &E) -> Vec<u8> {
        kernel::run(Rest(&mut self));
        let stream = self.emitted.stream(&self.states);
        engine.recycle(self.emitted.into_buffer());
        stream
    }
}

/// Encodes all remaining groups of a stream.
struct Rest<'r, 'a>(&'r mut Encoding<'a>);

impl Kernel for Rest<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Encoding {
            states,
            emitted,
            groups,
            codes,
            ..
        } = self.0;
        let code = |symbol: &u8| &codes[usize::from(*symbol)];
        for group in groups.rev() {
            emitted.push(states.iter_mut().zip(group.iter().map(code)).rev());
        }
    }
}
