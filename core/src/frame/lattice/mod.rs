//! Frame `ZXQ1` (docs/formats/zxq1.md): each element is a value of a small grid
//! times the scale of its group. Dequantised checkpoints consist of such
//! elements.

mod decode;
mod encode;
mod exceptions;
mod geometry;
mod grid;
mod groups;
mod head;
mod parse;

pub use encode::encode;
pub use geometry::Geometry;
pub use grid::Grid;
pub use groups::Groups;
pub use head::Head;
pub use parse::{Frame, SideFrames};

pub(super) const MAGIC: &[u8] = b"ZXQ1";
const VERSION: u8 = 1;
