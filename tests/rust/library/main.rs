//! The crate `zstn` as its users call it.
//!
//! No test here may call [`zstn::source::survive_truncation`]: `reader` shows
//! that a reader does not need that handler.

mod buffers;
mod convert;
mod decode_task;
mod delta_bases;
mod documents;
mod ended;
mod family;
mod kinds;
mod proof;
mod reader;
mod readme;
mod roundtrip;
mod rows;
mod shards;
mod streams;
mod unpacked;
