//! Decodes the elements of blocks (docs/formats/zxd1.md 10).

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod simd128;

use alloc::vec::Vec;

pub(super) use super::token::Joins;

use super::Directory;
use super::context::{BY_MANTISSA, SAME};
use super::float_format::{Float, Word};
use super::token::RawBits;
use crate::Result;
use crate::bytes::index;
use crate::entropy::interleaved::{Decoder, StreamPart, decode_together};

/// Number of elements of a block that each decoding step processes at a time. It
/// is small enough for the intermediate data of a few blocks to stay in the
/// first-level cache, and a multiple of the number of states.
const PART_ELEMENTS: usize = 1024;

/// Mask of the shift in a choice. A choice is the coding of an element's context in one
/// word: the index of the table is in the top four bits, the shift in the low bits.
pub(super) const SHIFT_MASK: u16 = 31;

/// A stored block, and the buffer for its elements.
#[derive(Debug)]
pub(super) struct StoredBlock<'a> {
    /// Offset of the block in the frame.
    pub start: u64,
    /// Index of the block's first element in the tensor.
    pub first_element: u64,
    pub rans: &'a [u8],
    pub raw: &'a [u8],
    /// True if the block is decoded completely, so that its end can be checked.
    pub is_whole: bool,
    /// The predictions of the elements to decode.
    pub predicted: &'a [u8],
    /// Receives the decoded elements. It is as long as `predicted`.
    pub out: &'a mut [u8],
}

/// A block that is being decoded in parts. The fields of `block` describe the
/// parts that remain.
struct Stream<'a, W> {
    block: StoredBlock<'a>,
    rans: Decoder<'a>,
    raw: RawBits<'a>,
    /// Number of elements in the current part.
    len: usize,
    state: StreamState,
    choices: [u16; PART_ELEMENTS],
    symbols: [u8; PART_ELEMENTS],
    values: [W; PART_ELEMENTS],
}

/// The progress of the current part of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamState {
    /// The contexts have been determined.
    Coded,
    /// The symbols have been decoded.
    Symbols,
    /// The elements have been written.
    Written,
}

/// Decodes every element of the blocks that has a prediction. If blocks have few
/// states, decoding several together is faster than decoding them one by one.
pub(super) fn decode<F: Float>(directory: &Directory, blocks: Vec<StoredBlock>) -> Result<()> {
    let mut streams = Vec::with_capacity(blocks.len());
    for block in blocks {
        let start = block.start;
        let stream = Stream::<F::Word>::new(block, directory.states);
        streams.push(stream.map_err(|error| error.within(start))?);
    }
    #[cfg(target_arch = "x86_64")]
    crate::avx2::call!(avx2::decode::<F>, directory, &mut streams; else {
        decode_scalar::<F>(directory, &mut streams);
    });
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    simd128::decode::<F>(directory, &mut streams);
    #[cfg(not(any(
        target_arch = "x86_64",
        all(target_arch = "wasm32", target_feature = "simd128")
    )))]
    decode_scalar::<F>(directory, &mut streams);
    for stream in streams {
        stream.finish()?;
    }
    Ok(())
}

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
fn decode_scalar<F: Float>(directory: &Directory, streams: &mut [Stream<F::Word>]) {
    let fill = |code, predicted: &[u8], choices: &mut [u16]| {
        directory.choices.fill::<F>(code, predicted, choices);
    };
    decode_parts::<F>(directory, streams, fill, |stream| {
        stream.join(directory);
        stream.apply::<F>(directory);
    });
}

/// Decodes blocks part by part. `fill` writes the choices for the elements of a
/// group, and `apply` writes the elements of a part whose symbols have been
/// decoded.
#[inline(always)]
fn decode_parts<F: Float>(
    directory: &Directory,
    streams: &mut [Stream<F::Word>],
    fill: impl Fn(u8, &[u8], &mut [u16]),
    apply: impl Fn(&mut Stream<F::Word>),
) {
    while streams.iter().any(|stream| !stream.block.out.is_empty()) {
        for stream in streams.iter_mut() {
            stream.read_contexts::<F>(directory, &fill);
        }
        decode_symbols(directory, streams);
        for stream in streams.iter_mut() {
            if stream.state == StreamState::Symbols {
                apply(stream);
            }
            stream.advance();
        }
    }
}

fn decode_symbols<W: Word>(directory: &Directory, streams: &mut [Stream<W>]) {
    let coded = streams.iter_mut().filter(|s| s.state == StreamState::Coded);
    let parts = coded.map(|stream| {
        stream.state = StreamState::Symbols;
        StreamPart {
            decoder: &mut stream.rans,
            choices: &stream.choices[..stream.len],
            symbols: &mut stream.symbols[..stream.len],
        }
    });
    decode_together(&directory.tables, &mut parts.collect::<Vec<_>>());
}

impl<'a, W: Word> Stream<'a, W> {
    fn new(block: StoredBlock<'a>, states: usize) -> Result<Self> {
        Ok(Self {
            rans: Decoder::new(block.rans, states)?,
            raw: RawBits::new(block.raw),
            block,
            len: 0,
            state: StreamState::Written,
            choices: [0; PART_ELEMENTS],
            symbols: [0; PART_ELEMENTS],
            values: [W::default(); PART_ELEMENTS],
        })
    }

    /// Begins the next part: determines the contexts of its elements.
    #[inline(always)]
    fn read_contexts<F: Float<Word = W>>(
        &mut self,
        directory: &Directory,
        fill: impl Fn(u8, &[u8], &mut [u16]),
    ) {
        self.len = PART_ELEMENTS.min(self.block.predicted.len() / size_of::<W>());
        let mut is_same = true;
        for (code, range) in directory.groups(self.block.first_element, self.len) {
            let bytes = range.start * size_of::<W>()..range.end * size_of::<W>();
            fill(code, &self.block.predicted[bytes], &mut self.choices[range]);
            is_same &= code == SAME;
        }
        self.state = match directory.unchanged {
            // Elements of unchanged groups take no bits, so they are copied.
            Some(0) if is_same => {
                let len_bytes = self.len * size_of::<W>();
                self.block.out[..len_bytes].copy_from_slice(&self.block.predicted[..len_bytes]);
                StreamState::Written
            }
            Some(symbol) if is_same => {
                self.symbols[..self.len].fill(symbol);
                StreamState::Symbols
            }
            _ => StreamState::Coded,
        };
    }

    /// Combines the symbols with their raw bits into values.
    #[inline(always)]
    fn join(&mut self, directory: &Directory) {
        let symbols = &self.symbols[..self.len];
        let choices = &self.choices[..self.len];
        let values = &mut self.values[..self.len];
        self.raw.read(symbols, choices, &directory.joins, values);
    }

    /// Computes the elements of the current part from the predictions and the values, and
    /// writes them.
    #[inline(always)]
    fn apply<F: Float<Word = W>>(&mut self, directory: &Directory) {
        let values = &mut self.values[..self.len];
        let len_bytes = self.len * size_of::<W>();
        let predicted = &self.block.predicted[..len_bytes];
        if let Some(means) = &directory.means {
            for (code, range) in directory.groups(self.block.first_element, self.len) {
                if code != BY_MANTISSA {
                    continue;
                }
                let bytes = range.start * size_of::<W>()..range.end * size_of::<W>();
                let words = W::words(&predicted[bytes]);
                for (word, value) in words.zip(&mut values[range]) {
                    *value = value.add(means[F::mantissa_top(word)]);
                }
            }
        }
        W::apply(predicted, values, &mut self.block.out[..len_bytes]);
    }

    /// Moves on to the next part, after the elements of the current one have
    /// been written.
    #[inline(always)]
    fn advance(&mut self) {
        let len_bytes = self.len * size_of::<W>();
        self.block.first_element += self.len as u64;
        self.block.predicted = &self.block.predicted[len_bytes..];
        self.block.out = &mut core::mem::take(&mut self.block.out)[len_bytes..];
    }

    fn finish(&self) -> Result<()> {
        if !self.block.is_whole {
            return Ok(());
        }
        let end = self.rans.finish().and_then(|()| self.raw.finish());
        end.map_err(|error| error.within(self.block.start))
    }
}

/// Converts a range of elements of `len_bytes` bytes each into a range of bytes.
pub(super) fn byte_range(
    elements: core::ops::Range<u64>,
    len_bytes: usize,
) -> core::ops::Range<usize> {
    index(elements.start) * len_bytes..index(elements.end) * len_bytes
}
