//! The bit streams of RFC 8878: little-endian, the bits written first at the
//! bottom. Huffman and FSE streams are read from their end.

use alloc::vec::Vec;

/// Appends bits to a buffer.
pub struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    held: u64,
    held_bits: u32,
}

impl<'a> BitWriter<'a> {
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self {
            out,
            held: 0,
            held_bits: 0,
        }
    }

    /// Appends up to 57 bits; `value` has no bits beyond them.
    pub fn put(&mut self, value: u64, bits: u32) {
        self.hold(value, bits);
        self.flush();
    }

    /// Appends like [`Self::put`], for callers that flush themselves: at most
    /// 57 bits between flushes.
    pub fn hold(&mut self, value: u64, bits: u32) {
        self.held |= value << self.held_bits;
        self.held_bits += bits;
    }

    /// Writes out all whole bytes.
    pub fn flush(&mut self) {
        let whole_bits = self.held_bits / 8 * 8;
        let end = self.out.len() + (whole_bits / 8) as usize;
        // Eight bytes at once and the surplus cut off is faster than a copy
        // of a varying length.
        self.out.extend_from_slice(&self.held.to_le_bytes());
        self.out.truncate(end);
        self.held = self.held.checked_shr(whole_bits).unwrap_or(0);
        self.held_bits -= whole_bits;
    }

    /// Fills the last byte with zeros.
    pub fn finish(mut self) {
        self.held_bits = self.held_bits.next_multiple_of(8);
        self.flush();
    }

    /// Sets the bit that marks the end of a stream read backwards.
    pub fn finish_marked(mut self) {
        self.put(1, 1);
        self.finish();
    }
}
