//! Packs AI model checkpoints without losing a bit, and reads single tensors out of the
//! packed files, from disk or over HTTP.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! # let header = br#"{"wte.weight":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]}}"#;
//! # let len = (header.len() as u64).to_le_bytes();
//! # std::fs::write("model.safetensors", [&len[..], header, &[0; 8]].concat())?;
//! use zstn::{Engine, PackOptions, Reader};
//!
//! let engine = Engine::default(); // one thread per core, shared by the process
//! zstn::pack(&engine, "model.safetensors", "model.zstn", &PackOptions::default())?;
//!
//! let reader = Reader::open("model.zstn")?; // or Location::url("https://…")
//! let tensor = reader.read("wte.weight")?;
//! println!("{} {:?}, {} bytes", tensor.dtype, tensor.shape, tensor.bytes.len());
//! # Ok(())
//! # }
//! ```
//!
//! - [`pack`], [`unpack`], [`verify`] and [`convert()`] work on whole checkpoints.
//!   Their [`Input`] is a path, an address, a folder or index of shards, a [`Source`]
//!   or bytes in memory; they recognise the file format themselves. Their [`Sink`] is a
//!   path, an address or a writer. An output file appears under its name only when it
//!   is complete.
//! - [`family::choose`] finds the best base for a checkpoint among several candidates.
//!   It compares small signatures, which [`family::sketch`] computes.
//! - [`Reader`] reads single tensors, or rows of them, and fetches little else.
//!   [`SafetensorsView`] reads byte ranges of the safetensors file that a model
//!   restores to.
//! - `AsyncReader` reads tensors and rows without blocking a thread.
//! - [`compress`] and [`decompress`] code single buffers.
//!
//! The formats themselves live in [`zstn_core`], which is re-exported; this crate
//! adds C zstd, a thread pool, files and the network. All calls block, except those of
//! `AsyncReader`.
//!
//! # Features
//!
//! None is enabled by default, so that a program that reads local files, or a [`Source`]
//! of its own, depends on little.
//!
//! - `async`: `AsyncReader` and `AsyncSource`.
//! - `http`: addresses on web servers and in hubs (`https://`, `hf://`), and writing to
//!   web servers. Includes `async`.
//! - `store`: addresses in object stores (`s3://`, `az://`, `gs://`), and any store of the
//!   crate `object_store` as a source. Includes `http`.

// A print to a closed pipe panics. The library never prints: only the command line
// writes to the terminal.
#![deny(clippy::print_stderr, clippy::print_stdout)]

/// The formats, with the types and errors that this crate's API uses, for programs that
/// work below the level of files.
pub use zstn_core;

#[cfg(target_os = "linux")]
pub mod allocator;
mod buffer;
mod catalog;
mod container;
pub mod convert;
mod delta;
// Public for `zstn serve` and the command line only; not part of the API.
#[doc(hidden)]
pub mod display;
mod engine;
mod error;
pub mod family;
mod finished;
pub mod model_delta;
mod output;
mod pack;
mod progress;
mod reader;
mod report;
mod safetensors_view;
mod shards;
pub mod source;
mod suggest;
mod unpack;
mod verbs;
mod verify;

/// Items that the crates of the command line, of servers and of hub tools share with this
/// one. They are not part of the API: any release may change them.
#[doc(hidden)]
pub mod internals {
    pub use crate::delta::MAX_BASES;
    pub use crate::output::{Staging, temporary};
    pub use crate::progress::Unpublished;
    pub use crate::shards::{Shards, packed_index_of, unpacked_index, unpacked_index_of};
    #[cfg(feature = "http")]
    pub use crate::source::{Attempts, Failure, wait};
    pub use crate::source::{PLAIN, is_server, is_store, offline, put_watched, regular, store};
    pub use crate::unpack::unpack_file;
}

pub use buffer::{compress, compress_delta, decompress, decompress_delta};
pub use convert::{ConvertOptions, ConvertReport, convert};
pub use engine::Engine;
pub use error::{Error, Result};
pub use finished::FinishedTensor;
pub use output::{Output, Sink, on_warning, remove_unfinished};
// The Python bindings need this: they cannot stop a thread that is blocked.
#[doc(hidden)]
pub use output::remove_unfinished_of;
pub use pack::PackOptions;
pub use progress::{Phase, Progress};
#[cfg(feature = "async")]
pub use reader::AsyncReader;
pub use reader::{Reader, ReaderOptions, RowsPlan, Tensor, View};
pub use report::{
    FolderReport, PackReport, PackedFile, Storage, UnpackReport, UnpackedFile, Uploaded,
    VerifiedFile, VerifyReport,
};
pub use safetensors_view::SafetensorsView;
#[doc(hidden)]
pub use safetensors_view::UnpackedRanges;
pub use shards::checkpoints_below;
#[cfg(feature = "async")]
pub use source::AsyncSource;
pub use source::{Input, Location, Source};
pub use verbs::{UnpackOptions, VerifyOptions, pack, unpack, verify};
pub use zstn_core::dtype::Dtype;
pub use zstn_core::frame::select::Effort;
pub use zstn_core::model::Verify;
