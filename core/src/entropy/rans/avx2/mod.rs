//! Decodes and encodes order-0 streams with AVX2, several at a time, because
//! each symbol depends on the one four positions earlier in its own stream.

mod decode;
mod encode;

pub(super) use decode::decode;
pub(super) use encode::encode;
