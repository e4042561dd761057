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
//! use zstn::{Job, PackOptions, Reader};
//!
//! let job = Job::new(); // one thread per core, shared by the process
//! zstn::pack(&job, "model.safetensors", "model.zstn", &PackOptions::default())?;
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
//!   is complete. A [`Job`] holds the threads, the network options, the memory limit,
//!   the [`Progress`] and the [`CancelToken`] of such work.
//! - [`diff`](diff()) states which tensors of two models differ, and by how much.
//! - [`family::choose`] finds the best base for a checkpoint among several candidates.
//!   It compares small signatures, which [`family::sketch`] computes.
//! - [`Reader`] reads single tensors, or rows of them, and fetches little else.
//!   [`SafetensorsView`] reads byte ranges of the safetensors file that a model
//!   restores to.
//! - `AsyncReader` reads tensors and rows without blocking a thread.
//! - [`compress`] and [`decompress`] code single buffers.
//!
//! The formats themselves live in [`zstn_core`], which is re-exported; this crate adds
//! C zstd, a thread pool, files and the network. All calls block, except the methods of
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

// The examples of this page are tested.
#[cfg(doctest)]
#[doc = include_str!("../../docs/rust.md")]
mod page {}

/// The formats, with the types and errors that this crate's API uses, for programs that
/// work below the level of files.
pub use zstn_core;

#[cfg(target_os = "linux")]
pub mod allocator;
mod buffers;
mod catalog;
mod container;
pub mod convert;
mod delta;
mod diff;
mod digest_thread;
// Public for `zstn serve` and the command line only; not part of the API.
#[doc(hidden)]
pub mod display;
mod engine;
mod error;
pub mod family;
mod finished_tensor;
mod in_memory;
mod job;
pub mod model_delta;
mod ordered;
mod original_file;
mod output;
mod pack;
mod progress;
mod reader;
mod report;
mod restored_stream;
mod safetensors_view;
mod shards;
pub mod source;
mod suggest;
mod tensor;
mod unpack;
mod verify;

/// Items that the crates of the command line, of servers and of hub tools share with this
/// one. They are not part of the API: any release may change them.
#[doc(hidden)]
pub mod internals {
    pub mod original_file {
        pub use crate::original_file::{is_in, is_of_another_format, is_recognised};
    }

    pub use crate::delta::MAX_BASES;
    pub use crate::job::default_memory_bytes;
    pub use crate::output::{Output, Staging, remove_unfinished_of, temporary};
    pub use crate::progress::Unpublished;
    pub use crate::restored_stream::restored_sha256;
    pub use crate::safetensors_view::UnpackedRanges;
    pub use crate::shards::{
        Shards, checkpoints_below, packed_index_of, unpacked_index, unpacked_index_of,
    };
    #[cfg(feature = "async")]
    pub use crate::source::on_thread;
    #[cfg(feature = "http")]
    pub use crate::source::{Attempts, Failure, RepoKind, Repository, wait};
    pub use crate::source::{PLAIN, is_server, is_store, offline, put_watched, regular, store};
}

pub use convert::{ConvertOptions, ConvertReport, convert};
pub use diff::{DiffOptions, DiffReport, Difference, DifferenceSize, TensorDiff, diff};
pub use engine::Engine;
pub use error::{Error, Result};
pub use finished_tensor::FinishedTensor;
pub use in_memory::{compress, compress_delta, decompress, decompress_delta};
pub use job::{CancelGuard, CancelToken, Job};
pub(crate) use output::Output;
pub use output::{Sink, on_warning, remove_unfinished};
pub use pack::{PackOptions, pack};
pub use progress::{Phase, Progress};
#[cfg(feature = "async")]
pub use reader::AsyncReader;
pub use reader::{Indices, Reader, ReaderOptions, RowsPlan, Selection, View};
pub use report::{
    FolderReport, PackReport, PackedFile, PackedOriginal, Storage, UnpackReport, UnpackedFile,
    Uploaded, VerifiedFile, VerifyReport,
};
pub use safetensors_view::SafetensorsView;
#[cfg(feature = "async")]
pub use source::AsyncSource;
pub use source::{Input, Location, Source};
pub use tensor::{CastError, Element, Tensor};
pub use unpack::{UnpackOptions, unpack};
pub use verify::{VerifyOptions, verify};
pub use zstn_core::dtype::Dtype;
pub use zstn_core::frame::select::Effort;
pub use zstn_core::model::{TensorInfo, Verify};
