//! Frame `Z4AI` (docs/formats/z4ai-frames.md 3).

mod coder;
mod decode;
mod encode;
mod parse;
mod recipe;
mod way;

pub use coder::PlaneCoder;
pub use encode::{Encoded, encode, head};
pub(crate) use parse::body_len;
pub use parse::{Frame, Transform};
pub use recipe::{PlaneRecipe, Recipe, Way, ZstdWays};

pub(super) const MAGIC: [u8; 4] = *b"Z4AI";
const VERSION: u8 = 1;
