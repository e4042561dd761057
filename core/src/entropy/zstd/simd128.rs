//! Unpacks flat codes of seven bits, 16 symbols at once, with WebAssembly
//! vectors.

use core::arch::wasm32::{
    i8x16_shuffle, i16x8_mul, u16x8, u16x8_shr, u16x8_splat, u64x2, u64x2_extract_lane, v128_and,
    v128_or,
};
use core::hint::black_box;

/// Number of symbols that are unpacked at once.
pub(super) const SYMBOLS: usize = 16;
/// Length in bytes of the codes of [`SYMBOLS`] symbols.
pub(super) const CODED_BYTES: usize = 14;
/// Number of bytes that are read for [`SYMBOLS`] symbols. Those after the first
/// [`CODED_BYTES`] are not used.
const WINDOW_BYTES: usize = 16;

/// Unpacks symbols of seven bits each, starting with the last symbol, until
/// `bytes` has no further window. Returns the number of unpacked items of
/// `symbols`, counted from the last one.
pub(super) fn unpack(bytes: &[u8], symbols: &mut [[u8; SYMBOLS]]) -> usize {
    // The factors move each symbol to the top of the two bytes that contain it. If
    // the compiler knew that they are powers of two, it would shift one element
    // after the other.
    let even_factors = black_box(u16x8(256, 64, 16, 4, 256, 64, 16, 4));
    let odd_factors = black_box(u16x8(128, 32, 8, 512, 128, 32, 8, 512));
    let odd_mask = u16x8_splat(0x7F00);
    let mut done = 0;
    for symbols in symbols.iter_mut().rev() {
        let Some(window) = bytes
            .get(done * CODED_BYTES..)
            .and_then(|rest| rest.first_chunk::<WINDOW_BYTES>())
        else {
            break;
        };
        let (words, _) = window.as_chunks::<8>();
        let window = u64x2(u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]));
        // The two bytes that contain each symbol at an even position, then those at
        // an odd position.
        let even =
            i8x16_shuffle::<13, 14, 11, 12, 9, 10, 7, 8, 6, 7, 4, 5, 2, 3, 0, 1>(window, window);
        let odd =
            i8x16_shuffle::<12, 13, 10, 11, 8, 9, 7, 8, 5, 6, 3, 4, 1, 2, 0, 1>(window, window);
        let both = v128_or(
            u16x8_shr(i16x8_mul(even, even_factors), 9),
            v128_and(u16x8_shr(i16x8_mul(odd, odd_factors), 1), odd_mask),
        );
        let (halves, _) = symbols.as_chunks_mut::<8>();
        halves[0] = u64x2_extract_lane::<0>(both).to_le_bytes();
        halves[1] = u64x2_extract_lane::<1>(both).to_le_bytes();
        done += 1;
    }
    done
}
