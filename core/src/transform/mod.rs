//! Reversible transforms between a buffer and its planes
//! (docs/formats/z4ai-frames.md 3.2 to 3.4, 9.1, 10 and 11.2). They do not
//! depend on how planes are coded. Only `gmm` is not reversible.

pub mod bitfield;
pub mod bitpack;
pub mod byteplane;
#[cfg(feature = "gauss")]
pub mod gmm;
#[cfg(feature = "mixes")]
pub mod mix;
pub mod palette;
pub mod sparse;

pub use bitfield::FloatFormat;

/// Calls a function that is generic over the element width, so that each width
/// gets specialised loops.
macro_rules! by_width {
    ($width:expr, $function:ident($($argument:expr),*)) => {
        match $width {
            1 => $function::<1>($($argument),*),
            2 => $function::<2>($($argument),*),
            4 => $function::<4>($($argument),*),
            8 => $function::<8>($($argument),*),
            other => panic!("elements have {other} bytes, not 1, 2, 4 or 8"),
        }
    };
}
use by_width;

/// Replaces `bytes` by its XOR with `reference`.
///
/// # Panics
/// If the lengths differ.
pub fn xor(bytes: &mut [u8], reference: &[u8]) {
    assert_eq!(bytes.len(), reference.len());
    for (byte, other) in bytes.iter_mut().zip(reference) {
        *byte ^= other;
    }
}
