//! Decoder of one or several streams (docs/formats/zxd1.md 7 and 8).

use alloc::boxed::Box;
use alloc::{format, vec};
use core::hint::select_unpredictable;

use super::{Frequencies, LOWER, MAX_STATES, MAX_TABLES, MIN_STATES, SLOT_BITS, SLOTS};
use crate::bytes::Cursor;
use crate::{Error, Result, Rule};

/// A stream that is being decoded.
#[derive(Debug, Clone)]
pub struct Decoder<'a> {
    pub(super) states: [u32; MAX_STATES],
    /// Number of states in use, which are the first ones of `states`.
    pub(super) count: usize,
    pub(super) words: &'a [[u8; 2]],
    pub(super) position: usize,
}

impl<'a> Decoder<'a> {
    /// Reads the `count` states that precede the words. `count` must be 8, 16
    /// or 32.
    pub fn new(stream: &'a [u8], count: usize) -> Result<Self> {
        let mut cursor = Cursor::new(stream);
        let mut states = [LOWER; MAX_STATES];
        for state in &mut states[..count] {
            let at = cursor.position() as u64;
            *state = cursor.u32("interleaved rANS state")?;
            if *state < LOWER {
                let detail = format!("a rANS state of {state:#x} is below {LOWER:#x}");
                return Err(Error::malformed(Rule::InterleavedStream, detail).at(at));
            }
        }
        let words = cursor.take(cursor.remaining() as u64, "words")?;
        let (words, rest) = words.as_chunks();
        if !rest.is_empty() {
            return Err(end("a rANS stream ends in half a word"));
        }
        Ok(Self {
            states,
            count,
            words,
            position: 0,
        })
    }

    /// Decodes one symbol for each entry of `choices`, whose top four bits
    /// select the table. The number of symbols must be a multiple of the number
    /// of states, except in the last call.
    ///
    /// # Panics
    /// If `symbols` is shorter than `choices`.
    pub fn decode(&mut self, tables: &DecodeTables, choices: &[u16], symbols: &mut [u8]) {
        decode_together(
            tables,
            &mut [StreamPart {
                decoder: self,
                choices,
                symbols,
            }],
        );
    }

    /// Decodes symbols without vector instructions.
    pub(super) fn decode_scalar(
        &mut self,
        tables: &DecodeTables,
        choices: &[u16],
        symbols: &mut [u8],
    ) {
        let (choices, choices_rest) = choices.as_chunks::<MIN_STATES>();
        let (symbols, symbols_rest) = symbols.as_chunks_mut::<MIN_STATES>();
        let mut lanes = 0;
        for (choices, symbols) in choices.iter().zip(symbols.iter_mut()) {
            self.step(tables, lanes, choices, symbols, MIN_STATES);
            lanes += MIN_STATES;
            if lanes == self.count {
                lanes = 0;
            }
        }
        if !choices_rest.is_empty() {
            let mut last = [0; MIN_STATES];
            last[..choices_rest.len()].copy_from_slice(choices_rest);
            let mut decoded = [0; MIN_STATES];
            self.step(tables, lanes, &last, &mut decoded, choices_rest.len());
            match symbols.get_mut(choices.len()) {
                Some(symbols) => *symbols = decoded,
                None => symbols_rest[..choices_rest.len()]
                    .copy_from_slice(&decoded[..choices_rest.len()]),
            }
        }
    }

    /// Decodes a symbol with each of eight states, starting with state `lanes`.
    /// Only the first `live` of these states have a symbol left.
    #[inline(always)]
    fn step(
        &mut self,
        tables: &DecodeTables,
        lanes: usize,
        choices: &[u16; MIN_STATES],
        symbols: &mut [u8; MIN_STATES],
        live: usize,
    ) {
        let left = self.words.get(self.position..).unwrap_or(&[]);
        let padded;
        let window = match left.first_chunk::<MIN_STATES>() {
            Some(window) => window,
            None => {
                padded = with_zeros(left);
                &padded
            }
        };
        let (states, _) = self.states.as_chunks_mut::<MIN_STATES>();
        let states = &mut states[lanes / MIN_STATES];
        let mut used = 0;
        for lane in 0..live {
            let state = states[lane];
            let entry = tables.entry(choices[lane], state);
            #[allow(clippy::cast_possible_truncation)] // the low byte
            {
                symbols[lane] = entry as u8;
            }
            let frequency = (entry >> 8 & (SLOTS - 1)) + 1;
            let next = frequency * (state >> SLOT_BITS) + (entry >> 20);
            let word = u32::from(u16::from_le_bytes(window[used % MIN_STATES]));
            let refills = next < LOWER;
            // About half of all symbols refill their state, so a branch could
            // not be predicted.
            states[lane] = select_unpredictable(refills, next << 16 | word, next);
            used += usize::from(refills);
        }
        self.position += used;
    }

    /// Checks that the stream ends after the last symbol.
    pub fn finish(&self) -> Result<()> {
        if self.position > self.words.len() {
            return Err(end("a rANS stream ends before its last symbol"));
        }
        if self.position < self.words.len() {
            return Err(end("words are left after the last rANS symbol"));
        }
        if self.states.iter().any(|&state| state != LOWER) {
            return Err(end("a rANS stream ends in another state than it started"));
        }
        Ok(())
    }
}

/// Returns the last words, followed by zeros. `finish` detects whether words of
/// the padding were used.
#[cold]
fn with_zeros(left: &[[u8; 2]]) -> [[u8; 2]; MIN_STATES] {
    let mut padded = [[0; 2]; MIN_STATES];
    padded[..left.len()].copy_from_slice(left);
    padded
}

#[cold]
fn end(detail: &'static str) -> Error {
    Error::malformed(Rule::InterleavedStream, detail)
}

/// Number of entries of all tables. The index of a table and a slot together
/// have 16 bits.
const ENTRIES: usize = MAX_TABLES << SLOT_BITS;

/// Maps the slots of up to 16 tables to symbols.
#[derive(Debug, Clone)]
pub struct DecodeTables {
    /// For each slot of each table: the symbol (8 bits), its frequency minus
    /// one (12 bits), and the index of the slot among the slots of this symbol
    /// (12 bits).
    pub(super) entries: Box<[u32; ENTRIES]>,
}

impl DecodeTables {
    /// Prepares the lookup tables.
    ///
    /// # Panics
    /// If there are more than 16 tables.
    #[must_use]
    pub fn new(tables: &[Frequencies]) -> Self {
        let mut entries = vec![0; ENTRIES].into_boxed_slice();
        let slots = entries.chunks_exact_mut(SLOTS as usize);
        assert!(tables.len() <= MAX_TABLES, "at most 16 tables");
        for (slots, table) in slots.zip(tables) {
            let mut rest = slots;
            for (symbol, frequency) in table.iter() {
                let (own, after) = rest.split_at_mut(frequency.into());
                let less_one = u32::from(frequency).saturating_sub(1) << 8;
                for (offset, entry) in (0u32..).zip(own) {
                    *entry = u32::from(symbol) | less_one | offset << 20;
                }
                rest = after;
            }
        }
        let entries = entries.try_into().unwrap_or_else(|_| unreachable!());
        Self { entries }
    }

    #[inline(always)]
    pub(super) fn entry(&self, choice: u16, state: u32) -> u32 {
        #[allow(clippy::cast_possible_truncation)] // the low half
        let slot = state as u16 & ((1 << SLOT_BITS) - 1);
        self.entries[usize::from(choice & !((1 << SLOT_BITS) - 1) | slot)]
    }
}

/// A range of a stream's symbols that is to be decoded.
#[derive(Debug)]
pub struct StreamPart<'a, 'b> {
    /// The decoder of the stream, positioned before the first of these symbols.
    pub decoder: &'a mut Decoder<'b>,
    /// The choice for each symbol, whose top four bits are the index of its
    /// table.
    pub choices: &'a [u16],
    /// The decoded symbols, one for each choice.
    pub symbols: &'a mut [u8],
}

/// Decodes parts of several streams that have the same number of states. The
/// requirements of [`Decoder::decode`] apply to each. If streams have few
/// states, this is faster than decoding them one by one.
///
/// # Panics
/// If a part has fewer symbols than choices.
pub(crate) fn decode_together(tables: &DecodeTables, streams: &mut [StreamPart]) {
    let mut rest = streams;
    while !rest.is_empty() {
        #[cfg(target_arch = "x86_64")]
        let (done, count) =
            crate::avx2::call!(super::avx2::decode, tables, &mut *rest; else (0, 1));
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        let (done, count) = super::simd128::decode(tables, rest);
        #[cfg(not(any(
            target_arch = "x86_64",
            all(target_arch = "wasm32", target_feature = "simd128")
        )))]
        let (done, count) = (0, 1);
        let (now, later) = rest.split_at_mut(count);
        for stream in now {
            let symbols = &mut stream.symbols[done..];
            stream
                .decoder
                .decode_scalar(tables, &stream.choices[done..], symbols);
        }
        rest = later;
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::entropy::bits::{BitReader, BitWriter};
    use crate::entropy::interleaved::{EncodeTables, Frequencies, encode};

    /// Decodes symbol by symbol, following docs/formats/zxd1.md 8 literally.
    fn one_by_one(
        tables: &[Frequencies],
        stream: &[u8],
        choices: &[u16],
        states: usize,
    ) -> Option<Vec<u8>> {
        let (head, words) = stream.split_at(4 * states);
        let mut states: Vec<u64> = head
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| u32::from_le_bytes(*bytes).into())
            .collect();
        let mut words = words.as_chunks::<2>().0.iter();
        let mut symbols = Vec::new();
        for (i, &choice) in choices.iter().enumerate() {
            let count = states.len();
            let state = &mut states[i % count];
            let slot = *state % 4096;
            let mut start = 0;
            for (symbol, frequency) in tables[usize::from(choice >> 12)].iter() {
                let frequency = u64::from(frequency);
                if slot < start + frequency {
                    symbols.push(symbol);
                    *state = frequency * (*state / 4096) + slot - start;
                    break;
                }
                start += frequency;
            }
            if *state < 1 << 16 {
                *state = *state << 16 | u64::from(u16::from_le_bytes(*words.next()?));
            }
        }
        let is_end = words.next().is_none() && states.iter().all(|state| *state == 1 << 16);
        is_end.then_some(symbols)
    }

    /// Generates symbols, each with its choice of a table, and the binary
    /// logarithm of the number of states. Some tables have many symbols, others
    /// a single one.
    fn content() -> impl Strategy<Value = (Vec<(u8, u16)>, usize)> {
        let symbol = prop_oneof![
            8 => Just(0u8),
            2 => 0u8..20,
            1 => any::<u8>(),
        ];
        let element = (symbol, 0u16..16).prop_map(|(symbol, table)| {
            // The last tables have a single symbol.
            let symbol = if table > 12 { 7 } else { symbol };
            (symbol, table << 12 | 31)
        });
        (proptest::collection::vec(element, 0..700), 3usize..6)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn streams_come_back_in_every_way((content, log) in content(), damage: usize) {
            let states = 1 << log;
            let (symbols, choices): (Vec<u8>, Vec<u16>) = content.iter().copied().unzip();
            let tables: Vec<Frequencies> = (0..16u16)
                .map(|table| {
                    let mut counts = [0; 256];
                    for &(symbol, choice) in &content {
                        counts[usize::from(symbol)] += u32::from(choice >> 12 == table);
                    }
                    Frequencies::round(&counts)
                })
                .collect();
            let mut written = Vec::new();
            let mut bits = BitWriter::new(&mut written);
            for table in &tables {
                prop_assert_eq!(table.iter().map(|(_, f)| u32::from(f)).sum::<u32>(), SLOTS);
                table.write(&mut bits);
            }
            bits.finish();
            let lens = tables.iter().map(Frequencies::len_bits);
            prop_assert_eq!(lens.sum::<u64>().div_ceil(8), written.len() as u64);
            let mut reader = BitReader::new(&written);
            for table in &tables {
                prop_assert_eq!(&Frequencies::read(&mut reader).unwrap(), table);
            }

            let mut stream = encode(&EncodeTables::new(&tables), &symbols, &choices, states);
            prop_assert_eq!(one_by_one(&tables, &stream, &choices, states), Some(symbols.clone()));
            let lookup = DecodeTables::new(&tables);
            let decode = |stream: &[u8], is_scalar: bool| {
                let mut decoder = Decoder::new(stream, states).unwrap();
                let mut out = vec![0; choices.len()];
                if is_scalar {
                    decoder.decode_scalar(&lookup, &choices, &mut out);
                } else {
                    // The length of each part is a multiple of the number of
                    // states, as in the decoder of blocks.
                    for (choices, out) in choices.chunks(128).zip(out.chunks_mut(128)) {
                        decoder.decode(&lookup, choices, out);
                    }
                }
                (out, decoder.finish())
            };
            for is_scalar in [false, true] {
                let (out, end) = decode(&stream, is_scalar);
                prop_assert_eq!(&out, &symbols);
                prop_assert!(end.is_ok());
            }
            // On damaged streams, all decoders agree, and none reads beyond the
            // end.
            let at = 4 * states + damage % (stream.len() - 4 * states + 1);
            if let Some(byte) = stream.get_mut(at) {
                *byte ^= 0x55;
            } else {
                stream.extend_from_slice(&[1, 2]);
            }
            let [vectors, scalar] = [false, true].map(|is_scalar| decode(&stream, is_scalar));
            prop_assert_eq!(&vectors, &scalar);
            let slow = one_by_one(&tables, &stream, &choices, states);
            prop_assert_eq!(slow.is_some(), scalar.1.is_ok());
        }
    }

    #[test]
    fn states_and_words_are_checked() {
        let low = [0xFF, 0xFF, 0, 0].repeat(8);
        let error = Decoder::new(&low, 8).unwrap_err();
        assert_eq!(error.rule(), Some(Rule::InterleavedStream));
        let good = [0, 0, 1, 0].repeat(8);
        assert!(Decoder::new(&good, 8).unwrap().finish().is_ok());
        assert_eq!(
            Decoder::new(&good, 16).unwrap_err().rule(),
            Some(Rule::Truncated)
        );
        for rest in [&[0][..], &[0, 0]] {
            let stream = [&good[..], rest].concat();
            let end = Decoder::new(&stream, 8).and_then(|decoder| decoder.finish());
            assert_eq!(end.unwrap_err().rule(), Some(Rule::InterleavedStream));
        }
    }
}
