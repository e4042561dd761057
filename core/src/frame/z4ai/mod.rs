//! Frame `Z4AI` (docs/formats/z4ai-frames.md 3).

mod coder;
mod decode;
mod encode;
mod encode_plane;
mod parse;
mod recipe;
mod transform;

pub use coder::PlaneCoder;
pub use encode::{EncodedPlanes, encode, head};
pub use parse::Frame;
pub use recipe::{BlockCodecs, Codec, PlaneRecipe, Recipe};
pub use transform::{PlaneLayout, Transform};

pub(super) const MAGIC: &[u8] = b"Z4AI";
const VERSION: u8 = 1;
