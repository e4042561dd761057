//! Lists the literals of a frame without decoding them, for decoders that run on
//! another device.

use alloc::boxed::Box;

use super::huffman_streams::{self, Backwards};
use super::huffman_table::{Weights, flat_bits};
use super::{BlockContent, Coded, Fault, Literals, ZstdBlocks, sequences};
use crate::bytes::index;

/// A part of the output of a frame, or a code for the streams that follow.
pub(crate) enum Part<'a> {
    /// Uncompressed bytes.
    Stored(&'a [u8]),
    /// One byte and the number of its repetitions.
    Run(u8, usize),
    /// A code for the streams up to the next code.
    Code(CodeWeights),
    /// A stream and the number of its symbols. The stream has been checked to be long
    /// enough for them, and no longer than their longest codes.
    Stream(&'a [u8], usize),
}

/// A complete Huffman code.
pub(crate) struct CodeWeights {
    /// The weights of all symbols, as RFC 8878 defines them in section 4.2.1.
    pub weights: Box<[u8; 256]>,
    /// Length of the longest code in bits, at most 12.
    pub bits: u32,
    /// True if every value below `1 << bits`, and no other, is its own code.
    pub is_flat: bool,
}

impl CodeWeights {
    /// Parses the description at the start of `bytes`, and returns the bytes after it.
    fn read(bytes: &[u8]) -> Result<(Self, &[u8]), Fault> {
        let (weights, rest) = Weights::read(bytes)?;
        let (weights, bits) = weights.complete()?;
        let is_flat = flat_bits(&weights, bits).is_some();
        let code = Self {
            weights: Box::new(weights),
            bits,
            is_flat,
        };
        Ok((code, rest))
    }

    /// Returns the lengths in bits of the shortest and the longest code.
    fn lens(&self) -> [usize; 2] {
        let largest = self.weights.iter().copied().max().unwrap_or(1);
        [self.bits + 1 - u32::from(largest), self.bits].map(|bits| bits as usize)
    }
}

/// Calls `visit` with the parts of `frame`, in the order of the output, which has
/// `len_bytes` bytes. Parts without output are left out.
///
/// Returns false, possibly after some calls, if the frame is not made of literals
/// alone: it contains matches to copy or a checksum.
///
/// # Errors
/// The headers or the code descriptions are damaged, or `visit` fails.
pub(crate) fn outline<'a, E: From<Fault>>(
    frame: &'a [u8],
    len_bytes: u64,
    mut visit: impl FnMut(Part<'a>) -> Result<(), E>,
) -> Result<bool, E> {
    let damaged = |why| Err(Fault(why).into());
    let mut blocks = ZstdBlocks::of(frame).map_err(Fault::from)?;
    if blocks.has_checksum {
        return Ok(false);
    }
    let mut lens = None;
    let mut left = len_bytes;
    loop {
        let block = blocks.read().map_err(Fault::from)?;
        let literals = match block.content {
            BlockContent::Raw(bytes) => Literals::Raw(bytes),
            BlockContent::Run(byte, len) => Literals::Run(byte, index(len)),
            BlockContent::Compressed(body) => {
                let (literals, section) = Literals::read(body)?;
                if literals.len() as u64 > blocks.cap_bytes {
                    return damaged("a block has too many literals");
                }
                if sequences::count(section)?.0 > 0 {
                    return Ok(false);
                }
                literals
            }
        };
        let Some(left_after) = left.checked_sub(literals.len() as u64) else {
            return damaged("it decodes to more bytes than expected");
        };
        left = left_after;
        match literals {
            Literals::Coded(coded) => outline_coded(&coded, &mut lens, &mut visit)?,
            _ if literals.len() == 0 => {}
            Literals::Raw(bytes) => visit(Part::Stored(bytes))?,
            Literals::Run(byte, len) => visit(Part::Run(byte, len))?,
        }
        if block.is_last {
            break;
        }
    }
    if left > 0 {
        return damaged("it decodes to fewer bytes than expected");
    }
    if !blocks.is_at_end() {
        return damaged("bytes follow it");
    }
    Ok(true)
}

/// Visits the code and the streams of coded literals. `lens` are the lengths in bits of
/// the shortest and the longest code of the blocks before.
fn outline_coded<'a, E: From<Fault>>(
    coded: &Coded<'a>,
    lens: &mut Option<[usize; 2]>,
    visit: &mut impl FnMut(Part<'a>) -> Result<(), E>,
) -> Result<(), E> {
    let mut bytes = coded.body;
    if coded.described {
        let (code, rest) = CodeWeights::read(bytes)?;
        bytes = rest;
        *lens = Some(code.lens());
        visit(Part::Code(code))?;
    }
    let Some([shortest, longest]) = *lens else {
        return Err(Fault("a block reuses a Huffman code, but none precedes it").into());
    };
    let mut stream = |bytes, symbols: usize| {
        let bits = Backwards::new(bytes)?.left;
        if bits < symbols * shortest || bits > symbols * longest {
            return Err(huffman_streams::END.into());
        }
        match symbols {
            0 => Ok(()),
            _ => visit(Part::Stream(bytes, symbols)),
        }
    };
    if !coded.four {
        return stream(bytes, coded.len);
    }
    coded.check_four()?;
    let mut left = coded.len;
    let quarter = left.div_ceil(4);
    for bytes in huffman_streams::split_four(bytes)? {
        let symbols = quarter.min(left);
        left -= symbols;
        stream(bytes, symbols)?;
    }
    Ok(())
}
