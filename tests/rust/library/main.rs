//! Tests of the crate `zstn` through its public API.

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
