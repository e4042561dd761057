//! zstn: packs AI model checkpoints without losing a bit, and reads single
//! tensors out of the packed file, from disk or over HTTP.
//!
//! ```no_run
//! # fn main() -> zstn::Result<()> {
//! use zstn::{Engine, PackOptions, Reader};
//!
//! let engine = Engine::default(); // one thread per core, shared by the process
//! zstn::pack(&engine, "model.safetensors", "model.zstn", &PackOptions::default())?;
//!
//! let reader = Reader::open("model.zstn")?; // or an http(s) address
//! let tensor = reader.read("wte.weight")?;
//! println!("{} {:?}, {} bytes", tensor.dtype, tensor.shape, tensor.bytes.len());
//! # Ok(())
//! # }
//! ```
//!
//! A checkpoint in several files, by its folder or index, is [`Shards`]; see
//! [`pack_shards`] and [`unpack_shards`].
//!
//! The formats themselves live in `zstn_core`; this crate adds C zstd, a
//! thread pool, files and the network. Output files appear under their name
//! only when they are complete.

// A print to a closed pipe panics; only the command line talks to people.
#![deny(clippy::print_stderr, clippy::print_stdout)]

pub use zstn_core as core;

mod buffer;
mod container;
pub mod convert;
mod delta;
mod engine;
mod error;
pub mod model_delta;
mod output;
pub mod pack;
mod reader;
pub mod shards;
pub mod source;
mod suggest;
mod unpack;
mod verify;

#[cfg(feature = "serve")]
pub mod serve;

pub use buffer::{compress, compress_delta, decompress, decompress_delta};
pub use convert::{ConvertOptions, ConvertReport, convert};
pub use delta::{BaseFile, DeltaReport, pack_delta, unpack_delta};
pub use engine::Engine;
pub use error::{Error, Result};
pub use output::{Output, OutputFolder, remove_unfinished};
pub use pack::{PackOptions, PackReport, pack};
pub use reader::{Reader, ReaderOptions, Tensor, View};
pub use shards::{
    Packed, ShardReport, Shards, ShardsReport, ShardsVerified, pack_shards, unpack_shards,
    verify_shards,
};
pub use unpack::{UnpackReport, unpack, unpack_map};
pub use verify::{VerifyReport, is_packed, verify, verify_delta, verify_tensors};
pub use zstn_core::frame::select::Effort;

/// Watches work on a whole file. Called from any thread; `()` looks away.
pub trait Progress: Sync {
    /// Work on that many bytes of original data begins.
    fn begin(&self, len_bytes: u64);
    /// So many more of them are done.
    fn advance(&self, len_bytes: u64);
    /// One of several files is being fetched before work on it can go on: so
    /// many bytes of it are here, of so many if that is known.
    fn fetching(&self, so_far_bytes: u64, len_bytes: Option<u64>) {
        let _ = (so_far_bytes, len_bytes);
    }
}

impl Progress for () {
    fn begin(&self, _: u64) {}
    fn advance(&self, _: u64) {}
}
