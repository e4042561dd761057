//! Many tensors to a file and back.
//!
//! These modules plan and check; they never read or write a file themselves.

pub mod compressed_tensors;
pub mod gauss;
pub mod model_delta;
pub mod safetensors;
pub mod zstn;
pub mod ztensor;
