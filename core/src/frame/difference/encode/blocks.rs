//! Encoder of blocks (docs/formats/zxd1.md 10).

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::{BLOCK_ELEMENTS, Coding, Tensors, write_values};
use crate::checksum::short_checksum;
use crate::engine::Engine;
use crate::entropy::interleaved::{EncodeTables, SLOT_BITS, encode as encode_rans};
use crate::frame::difference::block::SHIFT_MASK;
use crate::frame::difference::context::{BY_MANTISSA, ContextMap};
use crate::frame::difference::element::{Float, Word, for_float};
use crate::frame::difference::head::Block;
use crate::frame::difference::token::{extra_bits, symbol};

/// Encodes all blocks. Returns the bytes and the description of each. The field
/// `start` of the description is not set.
pub(super) fn encode<E: Engine>(
    engine: &E,
    tensors: Tensors,
    coding: &Coding,
    states: usize,
) -> Vec<(Block, Vec<u8>)> {
    let elements = tensors.current.len() / tensors.element.len_bytes();
    let model = &coding.model;
    let map = ContextMap::new(|context| {
        // The choice for a context that does not occur is irrelevant.
        let number = context.wrapping_sub(model.first_context.into());
        let coding = model.codings.get(number).copied().unwrap_or_default();
        u16::from(coding.table) << SLOT_BITS | u16::from(coding.shift)
    });
    let tables = EncodeTables::new(&model.tables);
    let jobs: Vec<Range<usize>> = (0..elements)
        .step_by(BLOCK_ELEMENTS)
        .map(|start| start..elements.min(start + BLOCK_ELEMENTS))
        .collect();
    engine.map(jobs, |range| {
        for_float!(tensors.element, F => {
            let width = size_of::<<F as Float>::Word>();
            let bytes = range.start * width..range.end * width;
            let (current, predicted) = (&tensors.current[bytes.clone()], &tensors.predicted[bytes]);
            let mut choices = vec![0; range.len()];
            let mut values = vec![<F as Float>::Word::default(); range.len()];
            for (code, range) in coding.groups.within(range) {
                let bytes = range.start * width..range.end * width;
                let (current, predicted) = (&current[bytes.clone()], &predicted[bytes]);
                map.fill::<F>(code, predicted, &mut choices[range.clone()]);
                let means = coding.means.as_ref().filter(|_| code == BY_MANTISSA);
                write_values::<F>(current, predicted, means, &mut values[range]);
            }
            let (symbols, raw) = split(&values, &choices);
            let mut out = encode_rans(&tables, &symbols, &choices, states);
            let block = Block {
                start: 0,
                rans_len_bytes: u32::try_from(out.len()).unwrap_or(u32::MAX),
                raw_len_bytes: u32::try_from(raw.len()).unwrap_or(u32::MAX),
                checksum: short_checksum([out.as_slice(), &raw]),
            };
            out.extend_from_slice(&raw);
            (block, out)
        })
    })
}

/// Splits values into symbols and raw bits.
fn split<W: Word>(values: &[W], choices: &[u16]) -> (Vec<u8>, Vec<u8>) {
    let mut raw = RawBits::with_capacity(size_of_val(values));
    let mut symbols = vec![0; values.len()];
    // Appending bits is sequential and takes longer than anything else, so the
    // bits of two short elements are appended together.
    let (pairs, _) = values.as_chunks::<2>();
    let pairs = if size_of::<W>() == 2 { pairs } else { &[] };
    let (choice_pairs, _) = choices.as_chunks::<2>();
    let (symbol_pairs, _) = symbols.as_chunks_mut::<2>();
    let coded = choice_pairs.iter().zip(symbol_pairs);
    for ([first, second], (choices, symbols)) in pairs.iter().zip(coded) {
        let (symbol, bits, len) = split_value(*first, choices[0]);
        let (next_symbol, next_bits, next_len) = split_value(*second, choices[1]);
        *symbols = [symbol, next_symbol];
        raw.put(bits | next_bits << len, len + next_len);
    }
    let done = 2 * pairs.len();
    let rest = values[done..].iter().zip(&choices[done..]);
    for ((value, choice), out) in rest.zip(&mut symbols[done..]) {
        let (symbol, bits, len) = split_value(*value, *choice);
        *out = symbol;
        raw.put(bits, len);
    }
    (symbols, raw.finish())
}

/// Returns the symbol of a value, its raw bits and their number. That number is
/// either below the number of significant bits of the value or equal to the
/// shift.
#[inline(always)]
fn split_value<W: Word>(value: W, choice: u16) -> (u8, u64, u32) {
    let value = value.to_u32();
    let shift = u32::from(choice & SHIFT_MASK);
    let symbol = symbol(value >> shift);
    let len = shift + extra_bits(symbol);
    (symbol, u64::from(value) & ((1 << len) - 1), len)
}

/// A writer of the raw bits of a block.
struct RawBits {
    bytes: Vec<u8>,
    len_bytes: usize,
    held: u64,
    held_bits: u32,
}

impl RawBits {
    /// Creates a buffer for the raw bits of elements of `len_bytes` bytes in
    /// total. It is large enough because no value has more raw bits than its
    /// own width.
    fn with_capacity(len_bytes: usize) -> Self {
        Self {
            bytes: vec![0; len_bytes + size_of::<u64>()],
            len_bytes: 0,
            held: 0,
            held_bits: 0,
        }
    }

    /// Appends the low `bits` bits of `value`, up to 32. Its other bits must be
    /// zero.
    #[inline(always)]
    fn put(&mut self, value: u64, bits: u32) {
        self.held |= value << self.held_bits;
        self.held_bits += bits;
        let room = self.bytes.get_mut(self.len_bytes..);
        if let Some(dest) = room.and_then(|room| room.first_chunk_mut()) {
            *dest = self.held.to_le_bytes();
        }
        self.len_bytes += (self.held_bits / 8) as usize;
        self.held >>= self.held_bits & !7;
        self.held_bits %= 8;
    }

    /// Returns the bits, padded with zeros to a whole byte.
    fn finish(mut self) -> Vec<u8> {
        let len_bytes = self.len_bytes + usize::from(self.held_bits > 0);
        self.bytes.truncate(len_bytes);
        self.bytes
    }
}
