//! The WebAssembly interface of `zstn-core`, which takes and returns bytes. Sources,
//! requests and typed arrays are implemented in TypeScript (`wasm/ts`).
//!
//! The npm package contains several builds of this crate: `reader` and `formats` open
//! files and read tensors, `coder` handles single frames and packing, and `threads`
//! decodes on several threads with shared memory.
//!
//! Every error is returned as a text ([`error::to_js_error`]).

extern crate alloc;

mod error;
#[cfg(any(feature = "reader", feature = "coder"))]
mod number;

#[cfg(any(feature = "reader", feature = "threads"))]
mod decode;
#[cfg(any(feature = "reader", feature = "threads"))]
mod engine;

#[cfg(feature = "reader")]
mod assembly;
#[cfg(feature = "reader")]
mod catalog;
#[cfg(feature = "reader")]
mod description;
#[cfg(feature = "reader")]
mod model;
#[cfg(feature = "reader")]
mod opening;
#[cfg(feature = "reader")]
mod ranges;
#[cfg(feature = "reader")]
mod rows;
#[cfg(feature = "reader")]
mod unpacked;

#[cfg(feature = "coder")]
mod delta_packing;
#[cfg(feature = "coder")]
mod frames;
#[cfg(feature = "coder")]
mod packing;

#[cfg(feature = "reader")]
pub use assembly::{Assembly, ShardIndex};
#[cfg(feature = "reader")]
pub use catalog::Catalog;
#[cfg(any(feature = "reader", feature = "threads"))]
pub use decode::decode;
#[cfg(feature = "coder")]
pub use delta_packing::DeltaPacking;
#[cfg(feature = "coder")]
pub use frames::{compress, compress_delta, decompress, decompress_delta};
#[cfg(feature = "reader")]
pub use model::Model;
#[cfg(feature = "reader")]
pub use opening::Opening;
#[cfg(feature = "coder")]
pub use packing::Packing;
#[cfg(feature = "reader")]
pub use rows::Rows;
#[cfg(feature = "reader")]
pub use unpacked::Unpacked;
#[cfg(feature = "threads")]
pub use wasm_bindgen_rayon::init_thread_pool;
