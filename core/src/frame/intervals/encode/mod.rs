//! Encoder of a frame (docs/formats/zxi1.md 8): chooses the intervals and the codes of rows
//! and columns, then encodes the blocks.
//!
//! All decisions are made with integers in a fixed order, so the bytes are the same on every
//! platform and with any number of threads.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::head::{HeadFields, Interval, Layout};
use super::{Frame, FrameFamily as _};
use crate::TensorRef;
use crate::dtype::Dtype;
use crate::engine::PackEngine;
use crate::entropy::bits::RawBitWriter;
use crate::entropy::interleaved::{
    EncodeTables, FRACTION_BITS, SLOT_BITS, encode as encode_rans, states,
};
use crate::frame::difference::row_elements;
use crate::frame::rans_blocks::Block;
use contexts::Contexts;
use partition::Partition;

mod contexts;
mod partition;

/// Number of elements of a block.
const BLOCK_ELEMENTS: usize = 1 << 17;
/// Smaller tensors are not encoded, because the head would cost more than the frame saves.
const MIN_ELEMENTS: usize = 1 << 12;
/// Number of elements that are processed together.
const PART_ELEMENTS: usize = 1024;
/// The least number of elements of a job, and the maximum number of jobs. Each job has its own
/// counts.
const JOB_ELEMENTS: usize = 1 << 20;
const MAX_JOBS: usize = 32;

/// Encodes `tensor`. Returns `None` if its dtype is not supported, if it is small, or if the
/// frame would not be smaller than the tensor.
pub fn encode<E: PackEngine>(engine: &E, tensor: TensorRef) -> Option<Vec<u8>> {
    let numbers = Numbers::of(tensor)?;
    let partition = Partition::new(engine, numbers)?;
    let symbols = partition.symbols(engine, numbers);
    let contexts = Contexts::choose(engine, numbers, &symbols, partition.intervals.len())?;
    let blocks = numbers.len().div_ceil(BLOCK_ELEMENTS);
    let bits = (contexts.cost >> FRACTION_BITS) + partition.raw_bits;
    let layout = Layout {
        element_bytes: numbers.width,
        states: states(bits / 8 / blocks as u64),
        elements: numbers.len() as u64,
        row_elements: contexts.row_elements as u64,
        block_elements: u32::try_from(BLOCK_ELEMENTS).ok()?,
    };
    let coded = encode_blocks(
        engine,
        numbers,
        &symbols,
        &partition,
        &contexts,
        layout.states,
    );
    let blocks: Vec<_> = coded.iter().map(|(block, _)| *block).collect();
    let fields = HeadFields {
        layout,
        codes: [&contexts.streams[0], &contexts.streams[1]],
        contexts: &contexts.table_of,
        intervals: &partition.intervals,
        tables: &contexts.tables,
    };
    let mut out = fields.write(&blocks)?;
    drop(symbols);
    out.reserve_exact(coded.iter().map(|(_, bytes)| bytes.len()).sum());
    for (_, bytes) in coded {
        out.extend_from_slice(&bytes);
    }
    // The frame is decoded again, because nothing else would reveal a mistake before the
    // original is discarded.
    let decoded = Frame::parse(&out).and_then(|frame| frame.decompress(engine));
    let is_same = decoded.is_ok_and(|decoded| decoded == tensor.bytes);
    (is_same && out.len() < tensor.bytes.len()).then_some(out)
}

/// The elements of a tensor as integers in the order of their magnitudes.
#[derive(Debug, Clone, Copy)]
struct Numbers<'a> {
    bytes: &'a [u8],
    /// Number of bytes of an element.
    width: usize,
    /// Number of elements of a row.
    row_elements: usize,
    /// The base-2 logarithm of the number of keys of an octave.
    octave_log: u32,
}

/// The number of high bits of an integer that are counted: its *key*.
const KEY_BITS: u32 = 16;

impl<'a> Numbers<'a> {
    /// Returns the elements of `tensor`, or `None` if this frame is not for it.
    fn of(tensor: TensorRef<'a>) -> Option<Self> {
        // A key is a sign and as many bits of the mantissa as fit below the exponent.
        let (width, octave_log) = match tensor.dtype? {
            Dtype::Bf16 => (2, 8),
            Dtype::F16 => (2, 11),
            Dtype::F32 => (4, 8),
            Dtype::F8E4M3 => (1, 4),
            Dtype::F8E5M2 => (1, 3),
            _ => return None,
        };
        let elements = tensor.bytes.len() / width;
        let is_supported = elements >= MIN_ELEMENTS
            && tensor.bytes.len().is_multiple_of(width)
            && u32::try_from(elements).is_ok();
        is_supported.then_some(Self {
            bytes: tensor.bytes,
            width,
            row_elements: row_elements(tensor.shape, elements),
            octave_log,
        })
    }

    fn len(&self) -> usize {
        self.bytes.len() / self.width
    }

    fn key_bits(&self) -> u32 {
        KEY_BITS.min(self.width_bits())
    }

    fn width_bits(&self) -> u32 {
        match self.width {
            1 => 8,
            2 => 16,
            _ => 32,
        }
    }

    /// Calls `each` with every integer of a range of elements.
    #[inline(always)]
    fn each(&self, range: Range<usize>, mut each: impl FnMut(u32)) {
        let bytes = &self.bytes[range.start * self.width..range.end * self.width];
        match self.width {
            1 => bytes
                .iter()
                .for_each(|byte| each(byte.rotate_left(1).into())),
            2 => {
                let words = bytes.as_chunks().0.iter();
                words.for_each(|word| each(u16::from_le_bytes(*word).rotate_left(1).into()));
            }
            _ => {
                let words = bytes.as_chunks().0.iter();
                words.for_each(|word| each(u32::from_le_bytes(*word).rotate_left(1)));
            }
        }
    }

    /// Calls `each` with the keys of consecutive elements of a range, and the number of the
    /// first one.
    #[inline(always)]
    fn each_keys(&self, range: Range<usize>, mut each: impl FnMut(usize, &[u16])) {
        let mut keys = [0; PART_ELEMENTS];
        for start in range.clone().step_by(PART_ELEMENTS) {
            let part = start..range.end.min(start + PART_ELEMENTS);
            let keys = &mut keys[..part.len()];
            let bytes = &self.bytes[part.start * self.width..part.end * self.width];
            match self.width {
                1 => {
                    for (key, byte) in keys.iter_mut().zip(bytes) {
                        *key = byte.rotate_left(1).into();
                    }
                }
                2 => {
                    for (key, word) in keys.iter_mut().zip(bytes.as_chunks().0) {
                        *key = u16::from_le_bytes(*word).rotate_left(1);
                    }
                }
                _ => {
                    for (key, word) in keys.iter_mut().zip(bytes.as_chunks().0) {
                        let number = u32::from_le_bytes(*word).rotate_left(1);
                        let [.., low, high] = number.to_le_bytes();
                        *key = u16::from_le_bytes([low, high]);
                    }
                }
            }
            each(start, keys);
        }
    }

    /// Divides the elements into ranges of at most `elements`, one for each job.
    fn jobs(&self, elements: usize) -> Vec<Range<usize>> {
        let starts = (0..self.len()).step_by(elements);
        starts
            .map(|start| start..self.len().min(start + elements))
            .collect()
    }
}

/// Returns the number of elements of a job that counts elements: a multiple of `unit`.
fn counting_elements(elements: usize, unit: usize) -> usize {
    let job = elements.div_ceil(MAX_JOBS).max(JOB_ELEMENTS);
    job.next_multiple_of(unit)
}

/// Adds counts to others.
fn add(counts: &mut [u32], more: &[u32]) {
    for (count, more) in counts.iter_mut().zip(more) {
        *count += more;
    }
}

/// Encodes all blocks. Returns the bytes and the description of each. The field `start` of
/// the description is not set.
fn encode_blocks<E: PackEngine>(
    engine: &E,
    numbers: Numbers,
    symbols: &[u8],
    partition: &Partition,
    contexts: &Contexts,
    states: usize,
) -> Vec<(Block, Vec<u8>)> {
    let tables = EncodeTables::new(&contexts.tables);
    let choice_of = contexts
        .table_of
        .iter()
        .map(|&table| u16::from(table) << SLOT_BITS);
    let choice_of: Vec<u16> = choice_of.collect();
    engine.map(numbers.jobs(BLOCK_ELEMENTS), |range| {
        let symbols = &symbols[range.clone()];
        let mut choices = vec![0; range.len()];
        contexts.fill(range.start, &choice_of, &mut choices);
        let rans = encode_rans(&tables, symbols, &choices, states);
        let mut raw = RawBitWriter::with_capacity(range.len() * numbers.width);
        let mut symbols = symbols.iter();
        numbers.each(range, |number| {
            let symbol = symbols.next().copied().unwrap_or_default();
            let Interval { start, length_log } = partition.intervals[usize::from(symbol)];
            raw.put((number - start).into(), length_log.into());
        });
        Block::join(rans, &raw.finish())
    })
}
