//! Tests of the crate `zstn` through its public API.

mod as_safetensors;
mod bases_of_other_formats;
mod cancelled;
mod conversions;
mod convert;
mod data_shards;
mod decode_task;
mod delta_bases;
mod diff;
mod documents;
mod family;
mod formats;
mod merges;
mod original_deltas;
mod original_files;
mod originals;
mod placed_tensors;
mod reader;
mod readme;
mod restore_proof;
mod roundtrip;
mod rows;
mod shards;
mod streams;
mod virtual_headers;
