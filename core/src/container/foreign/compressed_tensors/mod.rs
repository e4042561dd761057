//! compressed-tensors: sparse and quantised weights in safetensors files,
//! described by the model's `config.json` (docs/formats/compressed-tensors.md).
//!
//! This module does no I/O. [`Config`] parses the text of `config.json`. From
//! it and from the names, dtypes and shapes of all stored tensors (over all
//! shards), [`Checkpoint`] lists the tensors of the dense model. Each
//! [`Weight`] among them names the stored tensors that it is decoded from.
//! [`SparseWriter`] writes the two sparse formats.

mod bit_packing;
mod bitmask;
mod checkpoint;
mod config;
mod dequantise;
mod format;
mod geometry;
mod marlin;
mod module;
mod scheme;
mod sparse_writer;
mod stored;
mod target;
mod weight;

pub use checkpoint::{Checkpoint, CheckpointEntry};
pub use config::Config;
pub use format::Format;
pub use scheme::{CodeType, Scheme, Strategy};
pub use sparse_writer::{SparseWriter, StoredBytes};
pub use stored::{Role, TensorSpec, WeightPart};
pub use weight::{DenseTensor, Weight};
