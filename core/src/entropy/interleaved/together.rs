//! Several streams to their symbols at once.

use super::{DecodeTables, Decoder};

/// Symbols of a stream that are to be decoded.
#[derive(Debug)]
pub struct StreamPart<'a, 'b> {
    /// The stream, before the first of these symbols.
    pub decoder: &'a mut Decoder<'b>,
    /// Of each symbol, the number of its table in the top four bits.
    pub choices: &'a [u16],
    /// Where the symbols go: as many as there are choices.
    pub symbols: &'a mut [u8],
}

/// Decodes parts of several streams that have the same number of states, with
/// the demands of [`Decoder::decode`]. Together they take less time than one
/// after the other if they have few states.
///
/// # Panics
/// If there are fewer symbols than choices.
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
