//! Both zstd decoders, and the refusals that are only ours.

use zstn_core::engine::Engine;
use zstn_core::pure::Pure;

/// The refusals of `Pure` that C zstd does not share: its fastest loops check
/// neither where a stream of a Huffman code ends nor the bit that marks it, a
/// block may decode to more bytes than the format allows where the buffer has
/// room for them, and the description of a table that runs over the end of its
/// block goes on with bits read before.
pub const STRICT: [&str; 4] = [
    "a stream of a Huffman code does not end with its last symbol",
    "a stream of a Huffman code has no end",
    "a block holds more bytes than any may",
    "a block ends inside a table of finite state entropy",
];

/// Returns what C zstd decodes `frame` to, if that is `len` bytes.
pub fn by_c(frame: &[u8], len: usize) -> Option<Vec<u8>> {
    // With room for one byte more, so that a longer result is refused as well.
    let bytes = zstd::bulk::decompress(frame, len + 1).ok()?;
    (bytes.len() == len).then_some(bytes)
}

/// Decodes `frame` to `len` bytes by our decoder; the error says why not.
pub fn by_pure(frame: &[u8], len: usize) -> Result<Vec<u8>, String> {
    let mut out = vec![0; len];
    Pure.zstd_decode(frame, &mut out).map(|()| out)
}
