//! The WebAssembly interface of `zstn-core`, which takes and returns bytes. Sources,
//! requests and typed arrays are implemented in TypeScript (`wasm/ts`).
//!
//! The npm package contains several builds of this crate: `reader` and `formats` open
//! files and read tensors, `coder` handles single frames and packing, `threads` decodes
//! on several threads with shared memory, and `gpu` makes lists for shaders.
//!
//! Every error is returned as a text ([`conversion::to_js_error`]).

extern crate alloc;

mod conversion;
#[cfg(any(feature = "reader", feature = "threads"))]
mod decode;

#[cfg(feature = "reader")]
mod description;
#[cfg(feature = "reader")]
mod model;
#[cfg(feature = "reader")]
mod opening;
#[cfg(feature = "reader")]
mod part;
#[cfg(feature = "reader")]
mod unpacked;
#[cfg(feature = "formats")]
mod virtual_header;

#[cfg(feature = "gpu")]
mod shader_lists;

#[cfg(feature = "coder")]
mod frames;
#[cfg(feature = "coder")]
mod packing;

#[cfg(any(feature = "reader", feature = "threads"))]
pub use decode::decode;
#[cfg(feature = "coder")]
pub use frames::{compress, compress_delta, decompress, decompress_delta};
#[cfg(feature = "reader")]
pub use model::Model;
#[cfg(feature = "reader")]
pub use opening::{Assembly, Catalog, Opening, ShardIndex};
#[cfg(feature = "coder")]
pub use packing::{DeltaPacking, Packing};
#[cfg(feature = "reader")]
pub use part::Part;
#[cfg(feature = "gpu")]
pub use shader_lists::shader_lists;
#[cfg(feature = "reader")]
pub use unpacked::Unpacked;
#[cfg(feature = "formats")]
pub use virtual_header::{is_other_format, virtual_header_of_bytes};
#[cfg(feature = "threads")]
pub use wasm_bindgen_rayon::init_thread_pool;
