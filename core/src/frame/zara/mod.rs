//! Frame `ZARA` (docs/formats/z4ai-frames.md 11), which z4ai writes at its
//! higher efforts.

mod encode;
mod parse;
mod stream;

pub use encode::{StreamCodec, encode, encode_by};
pub use parse::{Frame, Transform};

pub(super) const MAGIC: &[u8] = b"ZARA";
const VERSION: u8 = 1;
