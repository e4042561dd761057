//! The literals section of a block (RFC 8878, 3.1.1.3.1).

use alloc::vec::Vec;

use super::huffman_table::Code;
use super::{Fault, huffman_streams};
use crate::bytes::index;

/// The smallest number of literals that may be divided into four streams.
const MIN_OF_FOUR: usize = 6;

/// The literals of a block, before decoding.
pub enum Literals<'a> {
    /// Uncompressed bytes.
    Raw(&'a [u8]),
    /// One byte and the number of its repetitions.
    Run(u8, usize),
    /// Huffman-coded bytes.
    Coded(Coded<'a>),
}

/// Literals coded with a Huffman code.
pub struct Coded<'a> {
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

    /// Returns whether they have a flat code ([`Code::flat_bits`]) with a
    /// description.
    pub(crate) fn are_flat(&self) -> bool {
        match self {
            Self::Coded(coded) => coded.described && Code::is_flat(coded.body),
            Self::Raw(_) | Self::Run(..) => false,
        }
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
        if self.len < MIN_OF_FOUR {
            return Err(Fault("too few literals for four streams"));
        }
        huffman_streams::decode_four(code, streams, out)
    }
}
