//! What the library does with a whole checkpoint: finds out what an input is,
//! and has a file or several worked on.

mod pack;
mod tensors;
mod unpack;
mod verify;

pub use pack::pack;
pub use unpack::{UnpackOptions, unpack};
pub use verify::{VerifyOptions, verify};
