//! Buffer to planes and back: pure, invertible, nothing about how a plane is
//! coded (docs/formats/z4ai-frames.md 3.2 to 3.4).

pub mod bitfield;
pub mod byteplane;
pub mod xor;

pub use bitfield::FloatFormat;
