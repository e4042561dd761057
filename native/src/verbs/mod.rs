//! Functions for whole checkpoints. Each determines the type of its input and calls the
//! module that processes a single file or a sharded checkpoint.

mod pack;
mod tensors;
mod unpack;
mod verify;

pub use pack::pack;
pub use unpack::{UnpackOptions, unpack};
pub use verify::{VerifyOptions, verify};
