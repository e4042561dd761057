//! zstn.
pub mod engine;
pub mod error;

pub use engine::Native;
pub use error::{Error, Result};
