//! The functions for whole checkpoints: each finds out what its input is, and
//! calls the room that works on a file or on several.

mod pack;
mod tensors;
mod unpack;
mod verify;

pub use pack::pack;
pub use unpack::{UnpackOptions, unpack};
pub use verify::{VerifyOptions, verify};
