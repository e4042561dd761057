//! WebAssembly shell of `zstn-core`: bytes in, bytes out. Sources, requests
//! and typed arrays are TypeScript (`wasm/ts`).
//!
//! The npm package holds two modules of it: `reader` for opening files and
//! reading tensors, `coder` for single frames and for packing.
//!
//! Every error leaves as a plain object
//! `{zstn: true, kind, rule, offset, tensor, message}`.

mod error;
mod number;

#[cfg(feature = "reader")]
mod assembly;
#[cfg(feature = "reader")]
mod catalog;
#[cfg(feature = "reader")]
mod model;
#[cfg(feature = "reader")]
mod opening;
#[cfg(feature = "reader")]
mod rows;

#[cfg(feature = "coder")]
mod frames;
#[cfg(feature = "coder")]
mod packing;

#[cfg(feature = "reader")]
pub use assembly::{Assembly, ShardIndex};
#[cfg(feature = "reader")]
pub use catalog::Catalog;
#[cfg(feature = "coder")]
pub use frames::{compress, decompress};
#[cfg(feature = "reader")]
pub use model::Model;
#[cfg(feature = "reader")]
pub use opening::Opening;
#[cfg(feature = "coder")]
pub use packing::Packing;
#[cfg(feature = "reader")]
pub use rows::Rows;
