//! Decodes several streams together.

use super::{DecodeTables, Decoder};

/// The symbols of a stream that are to be decoded.
#[derive(Debug)]
pub struct StreamPart<'a, 'b> {
    /// The decoder of the stream, positioned before the first of these symbols.
    pub decoder: &'a mut Decoder<'b>,
    /// The choice for each symbol, whose top four bits are the index of its
    /// table.
    pub choices: &'a [u16],
    /// The decoded symbols, one for each choice.
    pub symbols: &'a mut [u8],
}

/// Decodes parts of several streams that have the same number of states. The
/// requirements of [`Decoder::decode`] apply to each. If streams have few
/// states, this is faster than decoding them one by one.
///
/// # Panics
/// If a part has fewer symbols than choices.
pub fn decode_together(tables: &DecodeTables, streams: &mut [StreamPart]) {
    let mut rest = streams;
    while !rest.is_empty() {
        #[cfg(target_arch = "x86_64")]
        let (done, count) =
            crate::avx2::call!(super::avx2::decode, tables, &mut *rest; else (0, 1));
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        let (done, count) = super::simd128::decode(tables, rest);
        #[cfg(not(any(
            target_arch = "x86_64",
            all(target_arch = "wasm32", target_feature = "simd128")
        )))]
        let (done, count) = (0, 1);
        let (now, later) = rest.split_at_mut(count);
        for stream in now {
            let symbols = &mut stream.symbols[done..];
            stream
                .decoder
                .decode_scalar(tables, &stream.choices[done..], symbols);
        }
        rest = later;
    }
}
