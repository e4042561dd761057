//! File formats that hold many tensors: encoding and decoding.
//!
//! These modules plan and check; they never read or write a file themselves.

mod file_head;
pub mod foreign;
pub mod model_delta;
pub mod part_name;
pub mod safetensors;
mod tagged;
pub mod zstn;

/// The offset of the byte that states the version of a ZSTN or Z4DM file.
pub const VERSION_OFFSET_BYTES: u64 = 4;
