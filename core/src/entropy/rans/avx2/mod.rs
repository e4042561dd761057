//! Streams of order 0 on processors with AVX2, several of them at once: each
//! symbol waits for the one four before it in its own stream.

mod decode;
mod encode;

pub(super) use decode::decode;
pub(super) use encode::encode;
