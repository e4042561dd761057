//! Formats and transforms of zstn: model checkpoints made smaller without
//! losing a bit, and single tensors read back out of the packed file.
//!
//! The crate takes bytes and returns bytes. It opens no file, speaks no HTTP,
//! starts no thread and reads no clock; what it needs from outside (zstd and a
//! way to run independent jobs) it gets from an [`engine::Engine`]. [`pure::Pure`]
//! is one in Rust alone. With the feature `pure-hashes` the crate contains no C;
//! without it, BLAKE3 is built from assembly.
//!
//! Files are opened by a dialogue: [`catalog::FileOpener`] says which byte ranges
//! it needs, the caller reads them, from wherever they are.
//!
//! ```
//! # #[cfg(feature = "pure-encoder")]
//! # fn main() -> zstn_core::Result<()> {
//! use zstn_core::catalog::FileOpener;
//! use zstn_core::container::zstn;
//! use zstn_core::frame::select::Effort;
//! use zstn_core::pure::Pure;
//!
//! // A safetensors file with one tensor of four bytes.
//! let header = br#"{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#;
//! let mut plain = (header.len() as u64).to_le_bytes().to_vec();
//! plain.extend_from_slice(header);
//! plain.extend_from_slice(&[1, 2, 3, 4]);
//! let file = zstn::pack(&Pure, &plain, Effort::Balanced)?;
//!
//! let read = |range: std::ops::Range<u64>| &file[range.start as usize..range.end as usize];
//! let len_bytes = file.len() as u64;
//! let head = read(0..FileOpener::head_len_bytes(len_bytes)).to_vec();
//! let mut opener = FileOpener::new(len_bytes, head)?;
//! loop {
//!     let missing = opener.needs()?;
//!     if missing.is_empty() {
//!         break;
//!     }
//!     for range in missing {
//!         opener.supply(range.start, read(range))?;
//!     }
//! }
//! let catalog = opener.finish(&Pure)?;
//! let number = catalog.find("w")?;
//! let tensor = &catalog.tensors()[number];
//! let bytes = catalog.decode(&Pure, number, read(tensor.stored.clone()))?;
//! assert_eq!(*bytes, [1, 2, 3, 4]);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "pure-encoder"))]
//! # fn main() {}
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`dtype`], [`tensor`], [`limits`], [`error`] | the foundation of every stage |
//! | [`engine`], [`pure`] | the only interface to the outside, and an engine in Rust |
//! | [`frame`] | one buffer to a self-describing frame and back |
//! | [`container`] | many tensors to a file and back |
//! | [`catalog`] | what every container looks like from outside |
//! | [`model`] | the tensors of one file or several, as their user wants them |
//! | [`sketch`] | signatures of checkpoints, and what one costs as a delta of another |
//!
//! The formats are described in `docs/formats`; the variants of [`Rule`] cite
//! its sections. The modules of codecs (`bytes`, `transform`, `entropy`, and one
//! for each frame family) are for this project's packers and tests: they are
//! hidden here, panic on arguments that make no sense, and may change in any
//! release.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[doc(hidden)]
pub mod bytes;
pub mod catalog;
#[doc(hidden)]
pub mod checksum;
pub mod container;
#[doc(hidden)]
pub mod digest;
pub mod dtype;
pub mod engine;
#[doc(hidden)]
pub mod entropy;
pub mod error;
#[doc(hidden)]
pub mod float;
pub mod frame;
mod kernel;
pub mod limits;
pub mod model;
pub mod pure;
mod rule;
pub mod sketch;
mod sort;
#[doc(hidden)]
pub mod statistics;
pub mod tensor;
#[doc(hidden)]
pub mod transform;

pub use error::{Error, ErrorKind, Result};
pub use rule::Rule;
pub use tensor::TensorRef;
