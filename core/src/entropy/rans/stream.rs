//! Order-0 stream of four states in turn over one run of bytes (5.6).

use alloc::vec::Vec;

use super::capacity::Supply;
use super::state::{self, Divided, Emitted, Input, LOWER, WINDOW_SYMBOLS};
use super::table::{Code, Lookup};
use crate::Result;
use crate::bytes::Cursor;
use crate::engine::Engine;
use crate::entropy::histogram::entropy_bits;
use crate::kernel::{self, Kernel};

/// Probability bits of order 0.
pub(super) const BITS: u32 = 14;
pub(super) const SLOTS: usize = 1 << BITS;

pub(super) const STATES: usize = 4;
/// Streams that are decoded side by side at most.
pub(super) const GROUP_STREAMS: usize = 8;
/// The states, which every stream has.
pub(super) const HEAD_BYTES: u64 = 4 * STATES as u64;

/// Returns what a stream of that length can hold, see [`super::capacity`].
pub(super) fn supply(len_bytes: usize) -> Supply {
    Supply {
        bytes: (len_bytes as u64).saturating_sub(HEAD_BYTES),
        states: 4,
    }
}

/// A stream, the lookup of its symbols, and the output for all of them.
pub(super) struct Coded<'a> {
    pub stream: &'a [u8],
    pub lookup: &'a Lookup<SLOTS>,
    pub out: &'a mut [u8],
}

/// Divides streams into groups that are decoded side by side: eight, or fewer of
/// the last ones, which are an even number wherever they can be.
pub(super) fn groups<T>(mut streams: impl ExactSizeIterator<Item = T>) -> Vec<Vec<T>> {
    let mut left = streams.len();
    let mut groups = Vec::with_capacity(left / GROUP_STREAMS + 2);
    while left > 0 {
        let len = match left {
            1..=3 => left,
            // Two alone would not be decoded faster than one after the other.
            10 | 11 => 6,
            _ => GROUP_STREAMS.min(left / 2 * 2),
        };
        groups.push(streams.by_ref().take(len).collect());
        left -= len;
    }
    groups
}

/// Decodes some streams. Each symbol waits for the one four before it in its own
/// stream: several side by side take little more time than one.
pub(super) fn decode(streams: Vec<Coded>) -> Result<()> {
    let running = streams.into_iter().map(Running::new);
    let mut running: Vec<Running> = running.collect::<Result<_>>()?;
    decode_pairs(&mut running);
    let mut left = &mut running[..];
    loop {
        left = match left {
            [one, two, three] => {
                kernel::run(SideBySide([one, two, three]))?;
                break;
            }
            [one, two, rest @ ..] => {
                kernel::run(SideBySide([one, two]))?;
                rest
            }
            _ => break,
        };
    }
    running.into_iter().try_for_each(Running::finish)
}

/// Decodes symbols of at least two pairs of streams by vectors, where the
/// processor has them: most symbols, but not the last ones.
fn decode_pairs(streams: &mut [Running]) {
    #[cfg(target_arch = "x86_64")]
    {
        use super::avx2::decode;
        use crate::avx2::call;

        let (pairs, _) = streams.as_chunks_mut::<2>();
        match pairs {
            [a, b] => call!(decode::<2>, [a, b]; else ()),
            [a, b, c] => call!(decode::<3>, [a, b, c]; else ()),
            [a, b, c, d] => call!(decode::<4>, [a, b, c, d]; else ()),
            _ => {}
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = streams;
}

/// Decodes groups of symbols of all streams until one has no more.
struct SideBySide<'r, 'a, const N: usize>([&'r mut Running<'a>; N]);

impl<const N: usize> Kernel for SideBySide<'_, '_, N> {
    type Output = Result<()>;

    #[inline(always)]
    fn run(self) -> Result<()> {
        let Self(mut streams) = self;
        let counts = streams.iter().map(|stream| stream.groups.len());
        for _ in 0..counts.min().unwrap_or(0) {
            for stream in &mut streams {
                stream.step()?;
            }
        }
        Ok(())
    }
}

/// A stream being decoded.
pub(super) struct Running<'a> {
    pub(super) states: [u32; STATES],
    pub(super) input: Input<'a>,
    pub(super) lookup: &'a Lookup<SLOTS>,
    /// The places of symbols that are left, one for each state.
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
            input: Input(&coded.stream[cursor.position()..]),
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

    /// Decodes what is left and checks the end.
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

/// Returns the bytes of a stream of symbols with these counts.
pub(super) fn expected_len_bytes(counts: &[u64; 256]) -> usize {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // of a plane in memory
    let coded = (entropy_bits(counts) / 8.0) as usize;
    4 * STATES + coded
}

/// Codes `symbols`, all of which have a frequency.
pub(super) fn encode<E: Engine>(engine: &E, symbols: &[u8], codes: &[Code; 256]) -> Vec<u8> {
    let mut emitted = Emitted::in_buffer(engine.recycled(), symbols.len());
    let states = kernel::run(Encode {
        symbols,
        codes: codes.map(|code| Divided::new(code, BITS)),
        emitted: &mut emitted,
    });
    let stream = emitted.stream(&states);
    engine.recycle(emitted.into_buffer());
    stream
}

struct Encode<'a> {
    symbols: &'a [u8],
    codes: [Divided; 256],
    emitted: &'a mut Emitted,
}

impl Kernel for Encode<'_> {
    type Output = [u32; STATES];

    #[inline(always)]
    fn run(self) -> [u32; STATES] {
        let mut states = [LOWER; STATES];
        let emitted = self.emitted;
        let code = |symbol: &u8| &self.codes[usize::from(*symbol)];
        let (groups, rest) = self.symbols.as_chunks::<STATES>();
        emitted.push(states.iter_mut().zip(rest.iter().map(code)).rev());
        for group in groups.iter().rev() {
            emitted.push(states.iter_mut().zip(group.iter().map(code)).rev());
        }
        states
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::Frequencies;
    use super::*;
    use crate::Rule;
    use crate::entropy::histogram::count;
    use crate::pure::Pure;

    const TEXT: &[u8] = b"abracadabra";
    const STREAM: [u8; 16] = [
        0x7A, 0x99, 0x8F, 0x42, 0x24, 0xDE, 0x48, 0x21, 0xF4, 0xFB, 0x88, 0x42, 0x60, 0xC2, 0x6A,
        0x02,
    ];

    fn table() -> Frequencies {
        Frequencies::round(&count(TEXT), BITS)
    }

    fn decode_one(stream: &[u8], out: &mut [u8]) -> Result<()> {
        let lookup = &Lookup::new(&table());
        let coded = Coded {
            stream,
            lookup,
            out,
        };
        decode([coded].into())
    }

    #[test]
    fn two_streams_of_any_lengths() {
        let codes = table().codes();
        let lookup = &Lookup::new(&table());
        let texts = [TEXT, b"abracadabraabracad", &TEXT[..2]]
            .map(|text| (text, encode(&Pure, text, &codes)));
        for (first, first_stream) in &texts {
            for (second, second_stream) in &texts {
                let (mut a, mut b) = (vec![0; first.len()], vec![0; second.len()]);
                let one = Coded {
                    stream: first_stream,
                    lookup,
                    out: &mut a,
                };
                let two = Coded {
                    stream: second_stream,
                    lookup,
                    out: &mut b,
                };
                decode([one, two].into()).unwrap();
                assert_eq!((&a[..], &b[..]), (*first, *second));
            }
        }
    }

    #[test]
    fn three_streams_of_any_lengths() {
        let codes = table().codes();
        let lookup = &Lookup::new(&table());
        for lens in [[11, 11, 11], [11, 3, 8], [1, 11, 5], [9, 10, 0]] {
            let streams = lens.map(|len| encode(&Pure, &TEXT[..len], &codes));
            let mut outs = lens.map(|len| vec![0; len]);
            let coded = streams.iter().zip(&mut outs).map(|(stream, out)| Coded {
                stream,
                lookup,
                out,
            });
            decode(coded.collect()).unwrap();
            assert_eq!(outs, lens.map(|len| TEXT[..len].to_vec()));
        }
    }

    #[test]
    fn groups_are_even_but_for_the_last() {
        let lens = |count: usize| -> Vec<usize> { groups(0..count).iter().map(Vec::len).collect() };
        assert!(lens(0).is_empty());
        for count in 1..100 {
            let lens = lens(count);
            assert_eq!(lens.iter().sum::<usize>(), count);
            let (last, others) = lens.split_last().unwrap();
            assert!(others.iter().all(|len| [4, 6, 8].contains(len)), "{lens:?}");
            assert!((1..=8).contains(last), "{lens:?}");
        }
        assert_eq!(lens(9), [8, 1]);
        assert_eq!(lens(26), [8, 8, 6, 4]);
        let all: Vec<usize> = groups(0..27).concat();
        assert!(all.is_sorted());
    }

    /// Returns symbols of which some are rare: their codes take two bytes.
    fn uneven(seed: usize, len: usize) -> Vec<u8> {
        let mut word = seed as u64 * 2 + 1;
        let symbols = core::iter::repeat_with(|| {
            word = word
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(99);
            u32::try_from(word >> 54).unwrap()
        });
        let symbol = |number: u32| (number | 1).ilog2().to_le_bytes()[0];
        symbols.map(symbol).take(len).collect()
    }

    #[test]
    fn groups_of_any_size_and_lengths() {
        let tables: Vec<Frequencies> = (0..3)
            .map(|seed| Frequencies::round(&count(&uneven(seed, 1 << 16)), BITS))
            .collect();
        let lookups: Vec<_> = tables.iter().map(Lookup::new).collect();
        for many in 1..=20 {
            let texts: Vec<Vec<u8>> = (0..many)
                .map(|i| uneven(i, (i * 131 + many * 17) % 1000))
                .collect();
            let mut streams: Vec<Vec<u8>> = texts
                .iter()
                .enumerate()
                .map(|(i, text)| encode(&Pure, text, &tables[i % 3].codes()))
                .collect();
            let decoded = |streams: &[Vec<u8>]| -> Result<Vec<Vec<u8>>> {
                let mut outs: Vec<_> = texts.iter().map(|text| vec![0; text.len()]).collect();
                let coded = streams.iter().zip(&mut outs).enumerate();
                let coded = coded.map(|(i, (stream, out))| Coded {
                    stream,
                    lookup: &lookups[i % 3],
                    out,
                });
                let coded: Vec<Coded> = coded.collect();
                groups(coded.into_iter()).into_iter().try_for_each(decode)?;
                Ok(outs)
            };
            assert_eq!(decoded(&streams).unwrap(), texts);
            for damaged in 0..many {
                let whole = streams[damaged].clone();
                streams[damaged].pop();
                assert!(decoded(&streams).is_err());
                streams[damaged] = [&whole[..], &[0]].concat();
                assert_eq!(decoded(&streams).unwrap_err().rule(), Some(Rule::RansEnd));
                streams[damaged] = whole;
            }
        }
    }

    #[test]
    fn the_worked_example_of_chapter_17() {
        assert_eq!(encode(&Pure, TEXT, &table().codes()), STREAM);
        let mut out = [0; 11];
        decode_one(&STREAM, &mut out).unwrap();
        assert_eq!(out, TEXT);
    }

    #[test]
    fn ends_are_checked() {
        let rule =
            |stream: &[u8], n: usize| decode_one(stream, &mut vec![0; n]).unwrap_err().rule();
        assert_eq!(rule(&STREAM[..15], 11), Some(Rule::Truncated));
        assert_eq!(rule(&STREAM, 10), Some(Rule::RansEnd));
        assert_eq!(rule(&STREAM, 12), Some(Rule::RansEnd));
        assert_eq!(rule(&[&STREAM[..], &[0]].concat(), 11), Some(Rule::RansEnd));
        for state in [[0xFF, 0xFF, 0x7F, 0], [0, 0, 0, 0x80]] {
            let mut stream = STREAM;
            stream[4..8].copy_from_slice(&state);
            assert_eq!(rule(&stream, 11), Some(Rule::RansState));
        }
    }
}
