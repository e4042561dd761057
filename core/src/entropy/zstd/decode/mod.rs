//! Decoder of zstd frames (RFC 8878). A block is stored, a repeated byte, or
//! compressed. zstn's encoder mostly makes frames of literals with Huffman
//! codes only, which are decoded directly into the output. If a block has
//! sequences, its literals are first decoded into a buffer and copied from
//! there.
//!
//! Everything that C zstd rejects is rejected here. Two rules are enforced that
//! C zstd does not always check: a Huffman-coded stream must end with its last
//! bit, and no block may decode to more than the window or 128 KiB.

use alloc::string::String;
use alloc::vec::Vec;

use twox_hash::XxHash64;

use super::{BlockContent, ZstdBlocks};
use crate::Error;
use crate::bytes::index;
use huffman_table::Code;
use sequences::Sequences;

mod huffman_streams;
mod huffman_table;
#[cfg(feature = "plan")]
pub(crate) mod outline;
mod sequences;

/// The reason why a frame does not decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault(pub(super) &'static str);

impl From<Fault> for String {
    fn from(fault: Fault) -> Self {
        fault.0.into()
    }
}

impl From<Error> for Fault {
    fn from(_: Error) -> Self {
        Self("its headers are damaged")
    }
}

/// Returns whether any block of `frame` has sequences, which are matches to
/// copy. It reads only the headers of sections.
fn has_sequences(frame: &[u8]) -> Result<bool, Fault> {
    let mut blocks = ZstdBlocks::of(frame)?;
    loop {
        let block = blocks.read()?;
        if let BlockContent::Compressed(body) = block.content
            && let Ok((_, sequences)) = Literals::read(body)
            && sequences::count(sequences).is_ok_and(|(count, _)| count > 0)
        {
            return Ok(true);
        }
        if block.is_last {
            return Ok(false);
        }
    }
}

/// Returns whether this decoder is faster than C zstd for the first block of
/// `frame`.
fn starts_fast(frame: &[u8]) -> bool {
    let first = ZstdBlocks::of(frame).and_then(|mut blocks| blocks.read());
    match first.map(|block| block.content) {
        Ok(BlockContent::Compressed(body)) => match Literals::read(body) {
            Ok((literals, sequences)) => literals.are_fast() && sequences::count(sequences).is_ok(),
            Err(_) => false,
        },
        _ => false,
    }
}

/// Decodes any frame into `out`, which it must fill. The error text states the
/// reason for a failure.
pub fn decode_frame(frame: &[u8], out: &mut [u8]) -> Result<(), String> {
    Ok(decode(frame, out)?)
}

/// Decodes a frame of literals into `out`, which it must fill, if its first block
/// is one that this decoder decodes faster than C zstd: a block with a flat code,
/// which is decoded by shifts, or a long block of short codes, which is decoded up
/// to six symbols at a time. Returns `None` for any other frame.
pub fn decode_fast(frame: &[u8], out: &mut [u8]) -> Option<Result<(), String>> {
    let is_ours = starts_fast(frame) && has_sequences(frame) == Ok(false);
    is_ours.then(|| decode_frame(frame, out))
}

fn decode(frame: &[u8], out: &mut [u8]) -> Result<(), Fault> {
    let mut blocks = ZstdBlocks::of(frame)?;
    if blocks
        .content_bytes
        .is_some_and(|len| len != out.len() as u64)
    {
        return Err(Fault("it declares a different length"));
    }
    let most = usize::try_from(blocks.cap_bytes).unwrap_or(usize::MAX);
    let mut code = None;
    let mut sequences = Sequences::new();
    let mut buffer = Vec::new();
    let mut filled = Output::new(out);
    loop {
        let block = blocks.read()?;
        match block.content {
            BlockContent::Raw(bytes) => filled.claim(bytes.len())?.copy_from_slice(bytes),
            BlockContent::Run(byte, len) => filled.claim(index(len))?.fill(byte),
            BlockContent::Compressed(body) => {
                let (literals, section) = Literals::read(body)?;
                if literals.len() > most {
                    return Err(Fault("a block has too many literals"));
                }
                let (count, section) = sequences::count(section)?;
                if count == 0 {
                    literals.decode(&mut code, filled.claim(literals.len())?)?;
                } else {
                    let start = filled.done;
                    let literals = literals.decoded(&mut code, &mut buffer)?;
                    sequences.decode(count, section, literals, &mut filled)?;
                    if filled.done - start > most {
                        return Err(Fault("a block exceeds the largest block size"));
                    }
                }
            }
        }
        if block.is_last {
            break;
        }
    }
    if !filled.is_full() {
        return Err(Fault("it decodes to fewer bytes than expected"));
    }
    let stored = blocks.checksum()?;
    if !blocks.is_at_end() {
        return Err(Fault("bytes follow it"));
    }
    match stored {
        Some(stored) if XxHash64::oneshot(0, out) & u64::from(u32::MAX) != u64::from(stored) => {
            Err(Fault("the checksum differs"))
        }
        _ => Ok(()),
    }
}

/// The decoded bytes of a frame, which are filled from the start.
struct Output<'a> {
    bytes: &'a mut [u8],
    /// Number of bytes filled so far.
    pub done: usize,
}

impl<'a> Output<'a> {
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, done: 0 }
    }

    /// Returns whether every byte has been filled.
    pub fn is_full(&self) -> bool {
        self.done == self.bytes.len()
    }

    /// Claims the next `len` bytes, for the caller to fill.
    #[inline]
    pub fn claim(&mut self, len: usize) -> Result<&mut [u8], Fault> {
        let (_, free) = self.bytes.split_at_mut(self.done);
        let claimed = free.get_mut(..len).ok_or(FULL)?;
        self.done += len;
        Ok(claimed)
    }

    /// Fills the next `len` bytes with a copy of the bytes that begin `offset`
    /// bytes back. If the copy overlaps its own output, those bytes repeat.
    #[inline]
    pub fn repeat(&mut self, offset: usize, len: usize) -> Result<(), Fault> {
        let from = self.done.checked_sub(offset).filter(|_| offset > 0);
        let from = from.ok_or(Fault("a match begins before the frame"))?;
        let end = self.done + len;
        if end > self.bytes.len() {
            return Err(FULL);
        }
        while self.done < end {
            // Each copy can be twice as long as the previous one, because it
            // can copy the bytes already written.
            let piece = (self.done - from).min(end - self.done);
            self.bytes.copy_within(from..from + piece, self.done);
            self.done += piece;
        }
        Ok(())
    }
}

const FULL: Fault = Fault("it decodes to more bytes than expected");

/// The smallest number of literals that may be divided into four streams.
const MIN_OF_FOUR: usize = 6;

/// The literals of a block, before decoding.
enum Literals<'a> {
    /// Uncompressed bytes.
    Raw(&'a [u8]),
    /// One byte and the number of its repetitions.
    Run(u8, usize),
    /// Huffman-coded bytes.
    Coded(Coded<'a>),
}

/// The smallest number of literals that are decoded faster than by C zstd if their
/// codes have up to [`MAX_FAST_BITS`] on average.
const MIN_FAST: usize = 64 << 10;
const MAX_FAST_BITS: usize = 3;

/// Literals coded with a Huffman code.
struct Coded<'a> {
    /// Number of literals.
    len: usize,
    /// True if the streams are preceded by a description of their code. If not,
    /// they use the code of the previous block.
    described: bool,
    four: bool,
    body: &'a [u8],
}

impl<'a> Literals<'a> {
    /// Parses the section at the start of `block`, and returns the bytes after
    /// it.
    pub fn read(block: &'a [u8]) -> Result<(Self, &'a [u8]), Fault> {
        let head = *block.first().ok_or(SHORT)?;
        let (kind, format) = (head & 3, head >> 2 & 3);
        if kind >= 2 {
            return Coded::read(block, kind == 2, format).map(|(c, rest)| (Self::Coded(c), rest));
        }
        let (size, head_bytes) = match format {
            1 => (field(block, 2)? >> 4, 2),
            3 => (field(block, 3)? >> 4, 3),
            _ => (u64::from(head >> 3), 1),
        };
        let body = &block[head_bytes..];
        let len = index(size);
        if kind == 0 {
            let (raw, rest) = body.split_at_checked(len).ok_or(SHORT)?;
            return Ok((Self::Raw(raw), rest));
        }
        let (byte, rest) = body.split_first().ok_or(SHORT)?;
        Ok((Self::Run(*byte, len), rest))
    }

    /// Returns the number of literals.
    pub fn len(&self) -> usize {
        match self {
            Self::Raw(bytes) => bytes.len(),
            Self::Run(_, len) => *len,
            Self::Coded(coded) => coded.len,
        }
    }

    /// Returns whether this decoder decodes the literals faster than C zstd.
    fn are_fast(&self) -> bool {
        let Self::Coded(coded) = self else {
            return false;
        };
        let are_many = coded.len >= MIN_FAST;
        let are_short = 8 * coded.body.len() <= MAX_FAST_BITS * coded.len;
        are_many && are_short || coded.described && Code::is_flat(coded.body)
    }

    /// Decodes into `out`, which must have a length of [`Self::len`]. `code`
    /// holds the code of the previous blocks and is replaced if this block
    /// describes one.
    pub fn decode(&self, code: &mut Option<Code>, out: &mut [u8]) -> Result<(), Fault> {
        match self {
            Self::Raw(bytes) => out.copy_from_slice(bytes),
            Self::Run(byte, _) => out.fill(*byte),
            Self::Coded(coded) => coded.decode(code, out)?,
        }
        Ok(())
    }

    /// Returns the decoded literals for use by sequences. They are borrowed
    /// from the block if they are stored in it, otherwise decoded into `buffer`
    /// like [`Self::decode`].
    pub fn decoded<'b>(
        &'b self,
        code: &mut Option<Code>,
        buffer: &'b mut Vec<u8>,
    ) -> Result<&'b [u8], Fault> {
        if let Self::Raw(bytes) = self {
            return Ok(bytes);
        }
        buffer.resize(self.len(), 0);
        self.decode(code, buffer)?;
        Ok(buffer)
    }
}

const SHORT: Fault = Fault("a block ends inside its literals");

/// Returns the first `len_bytes` bytes as an integer.
fn field(block: &[u8], len_bytes: usize) -> Result<u64, Fault> {
    let mut bytes = [0; 8];
    bytes[..len_bytes].copy_from_slice(block.get(..len_bytes).ok_or(SHORT)?);
    Ok(u64::from_le_bytes(bytes))
}

impl<'a> Coded<'a> {
    fn read(block: &'a [u8], described: bool, format: u8) -> Result<(Self, &'a [u8]), Fault> {
        let size_bits = match format {
            0 | 1 => 10,
            2 => 14,
            _ => 18,
        };
        // C zstd requires the bytes of the longest header, whatever the format.
        let head = field(block, 5)?;
        let mask = (1 << size_bits) - 1;
        let size = |shift: u32| index(head >> shift & mask);
        let body = &block[(4 + 2 * size_bits as usize) / 8..];
        let (body, rest) = body.split_at_checked(size(4 + size_bits)).ok_or(SHORT)?;
        let coded = Self {
            len: size(4),
            described,
            four: format != 0,
            body,
        };
        Ok((coded, rest))
    }

    fn decode(&self, code: &mut Option<Code>, out: &mut [u8]) -> Result<(), Fault> {
        let mut streams = self.body;
        if self.described {
            let (fresh, rest) = Code::read(self.body)?;
            streams = rest;
            *code = Some(fresh);
        }
        let code = code
            .as_mut()
            .ok_or(Fault("a block reuses a Huffman code, but none precedes it"))?;
        if !self.four {
            return huffman_streams::decode_one(code, streams, out);
        }
        self.check_four()?;
        huffman_streams::decode_four(code, streams, out)
    }

    /// Checks that there are enough literals for four streams.
    fn check_four(&self) -> Result<(), Fault> {
        if self.len < MIN_OF_FOUR {
            return Err(Fault("too few literals for four streams"));
        }
        Ok(())
    }
}
