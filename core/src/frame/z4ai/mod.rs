//! Frame `Z4AI` (docs/formats/z4ai-frames.md 3).

mod coder;
mod decode;
mod encode;
mod encode_plane;
mod parse;
mod recipe;

pub use coder::PlaneCoder;
pub use encode::{EncodedPlanes, encode, head};
pub(crate) use parse::body_len;
pub use parse::{Frame, Transform};
pub use recipe::{BlockCodecs, Codec, PlaneRecipe, Recipe};

pub(super) const MAGIC: [u8; 4] = *b"Z4AI";
const VERSION: u8 = 1;
