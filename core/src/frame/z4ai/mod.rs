//! Frame `Z4AI` (docs/formats/z4ai-frames.md 3).

mod codec;
mod coder;
mod decode;
mod encode;
mod encode_plane;
mod layout;
mod parse;
mod recipe;
mod transform;

pub use codec::{BlockCodecs, Codec};
pub use coder::{PlaneCoder, PlaneShape};
pub use encode::{EncodedPlanes, encode, head};
pub use layout::PlaneLayout;
pub use parse::Frame;
pub use recipe::{PlaneRecipe, Recipe};
pub use transform::Transform;

pub(super) const MAGIC: &[u8] = b"Z4AI";
const VERSION: u8 = 1;
