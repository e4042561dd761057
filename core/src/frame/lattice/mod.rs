//! Frame `ZXQ1` (docs/formats/zxq1.md): values of a grid, times a scale for
//! each group of elements. Dequantised checkpoints have this form.

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
