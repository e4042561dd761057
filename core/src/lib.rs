//! Formats and transforms of zstn: model checkpoints made smaller without
//! losing a bit, and single tensors read back out of the packed file.
//!
//! The crate takes bytes and returns bytes. It opens no file, speaks no HTTP,
//! starts no thread, reads no clock and links no C; what it needs from outside
//! (zstd and a way to run independent jobs) it gets from an [`engine::Engine`].
//!
//! | module | holds |
//! |---|---|
//! | [`bytes`], [`dtype`], [`tensor`], [`limits`], [`error`] | the foundation of every stage |
//! | [`engine`] | the only interface to the outside |
//! | [`transform`] | buffer to planes and back, pure and invertible |
//! | [`entropy`] | one plane to its coded payload and back |
//! | [`frame`] | one buffer to a self-describing frame and back |
//! | [`container`] | many tensors to a file and back |
//! | [`catalog`] | what every container looks like from outside |
//! | [`model`] | the tensors of one file or several, as their user wants them |
//!
//! The formats are described in `docs/formats`; the variants of [`Rule`] cite
//! its sections.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod bytes;
pub mod catalog;
pub mod container;
pub mod digest;
pub mod dtype;
pub mod engine;
pub mod entropy;
pub mod error;
pub mod frame;
pub mod limits;
pub mod model;
pub mod pure;
mod rule;
mod sort;
pub mod tensor;
pub mod transform;

pub use error::{Error, ErrorKind, Result};
pub use rule::Rule;
pub use tensor::TensorRef;
