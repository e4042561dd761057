//! The file formats and transforms of zstn, which shrinks model checkpoints
//! losslessly and reads single tensors out of the packed file.
//!
//! The crate takes bytes and returns bytes. It opens no file, sends no request,
//! starts no thread and reads no clock. Its two dependencies on the
//! environment, zstd and a way to run independent jobs, are the methods of an
//! [`engine::Engine`]. [`pure::Pure`] is an engine written entirely in Rust.
//! With the feature `pure-hashes` the crate contains no C; without it, BLAKE3
//! is built from assembly.
//!
//! The caller does the reading. [`catalog::FileOpener`] returns the byte ranges
//! that it needs next, and the caller supplies them from a file, an object
//! store or a server:
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
//! | module | contents |
//! |---|---|
//! | [`dtype`], [`tensor`], [`limits`], [`error`] | types that every other module uses |
//! | [`engine`], [`pure`] | the interface to the environment, and an engine in Rust |
//! | [`frame`] | encoding of one buffer as a self-describing frame, and decoding |
//! | [`container`] | encoding of many tensors as a file, and decoding |
//! | [`catalog`] | one view of the tensors in a file, whatever its container format |
//! | [`model`] | the tensors of one or several files, dequantised if necessary |
//! | [`sketch`] | descriptions of checkpoints, from which the size of a delta is estimated |
//!
//! `docs/formats` describes the formats, and the variants of [`Rule`] cite its
//! sections. The modules of the codecs (`bytes`, `transform`, `entropy`, and
//! one for each frame family) are hidden from this documentation: they serve
//! this project's packers and tests, panic on invalid arguments, and may change
//! in any release.
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
