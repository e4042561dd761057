//! Many tensors to a file and back.
//!
//! These modules plan and check; they never read or write a file themselves.

#[cfg(feature = "compressed-tensors")]
pub mod compressed_tensors;
#[cfg(feature = "gauss")]
pub mod gauss;
pub mod model_delta;
pub mod part_name;
pub mod safetensors;
pub mod zstn;
#[cfg(feature = "ztensor")]
pub mod ztensor;
