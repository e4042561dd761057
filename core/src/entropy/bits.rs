//! Little-endian bit streams, whose first bits are the lowest ones. The Huffman
//! and FSE streams of zstd are read from their end.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use crate::{Error, Result, Rule};

/// Appends bits to a buffer.
#[derive(Debug)]
pub struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    held: u64,
    held_bits: u32,
}

impl<'a> BitWriter<'a> {
    /// Starts writing at the end of `out`, which is a byte boundary.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self {
            out,
            held: 0,
            held_bits: 0,
        }
    }

    /// Appends the low `bits` bits of `value`, up to 57. Its other bits must be
    /// zero.
    #[inline]
    pub fn put(&mut self, value: u64, bits: u32) {
        self.hold(value, bits);
        self.flush();
    }

    /// Appends like [`Self::put`] without flushing. The caller must flush after
    /// at most 57 bits.
    #[inline]
    pub fn hold(&mut self, value: u64, bits: u32) {
        self.held |= value << self.held_bits;
        self.held_bits += bits;
    }

    /// Writes all whole bytes to the buffer.
    #[inline]
    pub fn flush(&mut self) {
        let whole_bits = self.held_bits / 8 * 8;
        let end = self.out.len() + (whole_bits / 8) as usize;
        // Appending eight bytes and truncating is faster than copying a
        // variable number of bytes.
        self.out.extend_from_slice(&self.held.to_le_bytes());
        self.out.truncate(end);
        self.held = self.held.checked_shr(whole_bits).unwrap_or(0);
        self.held_bits -= whole_bits;
    }

    /// Pads the last byte with zeros and writes it.
    pub fn finish(mut self) {
        self.held_bits = self.held_bits.next_multiple_of(8);
        self.flush();
    }

    /// Appends the bit that marks the end of a stream that is read backwards,
    /// then finishes.
    pub(crate) fn finish_marked(mut self) {
        self.put(1, 1);
        self.finish();
    }
}

/// A writer of the raw bits of a block. It is faster than [`BitWriter`], but needs to know
/// how long the result can be.
#[derive(Debug)]
pub(crate) struct RawBitWriter {
    bytes: Vec<u8>,
    len_bytes: usize,
    held: u64,
    held_bits: u32,
}

impl RawBitWriter {
    /// Creates a buffer for the raw bits of elements of `len_bytes` bytes in
    /// total, none of which has more raw bits than its own width.
    pub fn with_capacity(len_bytes: usize) -> Self {
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
    pub fn put(&mut self, value: u64, bits: u32) {
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
    pub fn finish(mut self) -> Vec<u8> {
        let len_bytes = self.len_bytes + usize::from(self.held_bits > 0);
        self.bytes.truncate(len_bytes);
        self.bytes
    }
}

/// Reads bits, for streams with few fields.
#[derive(Debug, Clone)]
pub struct BitReader<'a> {
    bytes: &'a [u8],
    position_bits: usize,
}

impl<'a> BitReader<'a> {
    /// Starts reading at the lowest bit of the first byte.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            position_bits: 0,
        }
    }

    /// Returns the next `bits` bits, at most 32. `what` names the field in the
    /// error, whose offset counts from the start of the stream.
    pub fn take(&mut self, bits: u32, what: &str) -> Result<u32> {
        let mut value = 0u64;
        let first = self.position_bits / 8;
        let end = self.position_bits + bits as usize;
        let Some(bytes) = self.bytes.get(first..end.div_ceil(8)) else {
            let detail = format!("{what} needs {bits} bits and reaches past the end");
            return Err(Error::malformed(Rule::Truncated, detail).at(first as u64));
        };
        for &byte in bytes.iter().rev() {
            value = value << 8 | u64::from(byte);
        }
        let value = value >> (self.position_bits % 8) & ((1 << bits) - 1);
        self.position_bits = end;
        #[allow(clippy::cast_possible_truncation)] // masked to 32 bits
        Ok(value as u32)
    }

    /// Checks that fewer than eight bits are left and that they are zero.
    pub fn finish(mut self, rule: Rule, what: &str) -> Result<()> {
        let at = self.position_bits.div_ceil(8);
        let spare = (8 * at - self.position_bits) % 8;
        if at != self.bytes.len() {
            let detail = format!("{} bytes follow {what}", self.bytes.len() - at);
            return Err(Error::malformed(rule, detail).at(at as u64));
        }
        if self.take(u32::try_from(spare).unwrap_or(0), "padding")? != 0 {
            let detail = format!("the padding of {what} is not zero");
            return Err(Error::malformed(rule, detail).at(at as u64 - 1));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_back_lowest_first() {
        let mut stream = Vec::new();
        let mut writer = BitWriter::new(&mut stream);
        writer.put(0b101, 3);
        writer.put(0, 0);
        writer.put(0x1_2345_6789_ABCD, 57);
        writer.put(1, 1);
        writer.finish();
        assert_eq!(stream.len(), 8);
        assert_eq!(stream[0], 0x6D, "0b01101 above 0b101");
        let mut reader = BitReader::new(&stream);
        assert_eq!(reader.take(3, "a").unwrap(), 0b101);
        assert_eq!(reader.take(32, "b").unwrap(), 0x6789_ABCD);
        assert_eq!(reader.take(25, "c").unwrap(), 0x1_2345);
        assert_eq!(reader.clone().take(1, "d").unwrap(), 1);
        let error = reader.clone().finish(Rule::Truncated, "it").unwrap_err();
        assert!(error.to_string().contains("padding"), "{error}");
        reader.take(1, "d").unwrap();
        reader.clone().finish(Rule::Truncated, "it").unwrap();
        let error = reader.take(4, "e").unwrap_err();
        assert_eq!(
            (error.rule(), error.offset()),
            (Some(Rule::Truncated), Some(7))
        );
    }

    #[test]
    fn bytes_left_are_refused() {
        let mut reader = BitReader::new(&[1, 0]);
        reader.take(1, "a").unwrap();
        let error = reader.finish(Rule::Truncated, "it").unwrap_err();
        assert_eq!(error.offset(), Some(1));
    }
}
