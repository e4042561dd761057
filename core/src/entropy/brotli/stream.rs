//! Decoder of one brotli stream.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use brotli_decompressor::{
    Allocator, BrotliDecompressStream, BrotliResult, BrotliState, SliceWrapper, SliceWrapperMut,
};

use crate::{Error, Result, Rule};

/// The output buffer doubles, in steps of at least this length and at most
/// [`MAX_PIECE_BYTES`].
const MIN_PIECE_BYTES: u64 = 16 << 10;
const MAX_PIECE_BYTES: u64 = 16 << 20;
/// The decoder counts its input with 32 bits.
const INPUT_PIECE_BYTES: usize = 1 << 30;

/// Decodes `payload`, which must be exactly one stream, to exactly `len_bytes`
/// bytes.
pub fn decode(payload: &[u8], len_bytes: u64) -> Result<Vec<u8>> {
    // In strict mode, the window is at most 16 MiB.
    let mut state = BrotliState::new_strict(Heap, Heap, Heap);
    let mut out: Vec<u8> = Vec::new();
    let (mut read, mut written) = (0, 0);
    let mut total = 0;
    loop {
        let input = &payload[read..payload.len().min(read + INPUT_PIECE_BYTES)];
        let (mut input_left, mut input_at) = (input.len(), 0);
        let mut room = out.len() - written;
        let result = BrotliDecompressStream(
            &mut input_left,
            &mut input_at,
            input,
            &mut room,
            &mut written,
            &mut out,
            &mut total,
            &mut state,
        );
        read += input_at;
        match result {
            BrotliResult::ResultSuccess => break,
            BrotliResult::NeedsMoreOutput if out.len() as u64 == len_bytes => {
                return Err(Error::malformed(
                    Rule::BrotliLength,
                    format!("a brotli stream decodes to more than {len_bytes} bytes"),
                ));
            }
            BrotliResult::NeedsMoreOutput => grow(&mut out, len_bytes)?,
            BrotliResult::NeedsMoreInput if read < payload.len() && input_at > 0 => {}
            BrotliResult::NeedsMoreInput => return Err(damaged("ends early")),
            BrotliResult::ResultFailure => return Err(damaged("does not decode")),
        }
    }
    if read != payload.len() {
        return Err(Error::malformed(
            Rule::BrotliData,
            format!("{} bytes follow the brotli stream", payload.len() - read),
        )
        .at(read as u64));
    }
    if written as u64 != len_bytes {
        return Err(Error::malformed(
            Rule::BrotliLength,
            format!("a brotli stream decodes to {written} bytes where {len_bytes} are expected"),
        ));
    }
    Ok(out)
}

fn damaged(what: &str) -> Error {
    Error::malformed(
        Rule::BrotliData,
        format!("a brotli stream {what}: the file is damaged"),
    )
}

/// Doubles the output buffer, within the limits above.
fn grow(out: &mut Vec<u8>, len_bytes: u64) -> Result<()> {
    let produced = out.len() as u64;
    let piece = produced.clamp(MIN_PIECE_BYTES, MAX_PIECE_BYTES);
    let target = usize::try_from(len_bytes.min(produced + piece))
        .ok()
        .filter(|&target| out.try_reserve(target - out.len()).is_ok())
        .ok_or_else(|| Error::limit(format!("{len_bytes} bytes do not fit in memory")))?;
    out.resize(target, 0);
    Ok(())
}

/// Memory for the decoder, from the global allocator.
struct Heap;

impl<T: Clone + Default> Allocator<T> for Heap {
    type AllocatedMemory = Memory<T>;

    fn alloc_cell(&mut self, len: usize) -> Memory<T> {
        Memory(vec![T::default(); len].into_boxed_slice())
    }

    fn free_cell(&mut self, _: Memory<T>) {}
}

struct Memory<T>(Box<[T]>);

impl<T> Default for Memory<T> {
    fn default() -> Self {
        Self(Box::new([]))
    }
}

impl<T> SliceWrapper<T> for Memory<T> {
    fn slice(&self) -> &[T] {
        &self.0
    }
}

impl<T> SliceWrapperMut<T> for Memory<T> {
    fn slice_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // An empty stream.
    const EMPTY: &[u8] = &[0x06];

    #[test]
    fn lengths_and_ends() {
        assert!(decode(EMPTY, 0).unwrap().is_empty());
        let rule = |payload: &[u8], len| decode(payload, len).unwrap_err().rule();
        assert_eq!(rule(EMPTY, 1), Some(Rule::BrotliLength));
        assert_eq!(rule(&[0x06, 0], 0), Some(Rule::BrotliData));
        assert_eq!(rule(&[], 0), Some(Rule::BrotliData));
        assert_eq!(rule(&[0x06, 0], u64::MAX), Some(Rule::BrotliData));
    }
}
