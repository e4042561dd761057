//! The WebAssembly interface of `zstn-core`, which takes and returns bytes. Sources,
//! requests and typed arrays are implemented in TypeScript (`wasm/ts`).
//!
//! The npm package contains several builds of this crate: `reader` decodes tensors of
//! files whose heads TypeScript has parsed, `formats` opens all files and reads their
//! tensors, `coder` handles single frames and packing, `threads` decodes on several
//! threads with shared memory, and `gpu` makes lists for shaders.
//!
//! Every error is returned as a text ([`conversion::to_js_error`]).

extern crate alloc;

mod conversion;
#[cfg(any(feature = "reader", feature = "formats", feature = "threads"))]
mod decode;

#[cfg(feature = "reader")]
mod frame_reads;

#[cfg(feature = "formats")]
mod computed_base;
#[cfg(feature = "formats")]
mod description;
#[cfg(feature = "formats")]
mod model;
#[cfg(feature = "formats")]
mod opening;
#[cfg(feature = "formats")]
mod part;
#[cfg(feature = "formats")]
mod unpacked;
#[cfg(feature = "formats")]
mod virtual_header;

#[cfg(feature = "gpu")]
mod shader_lists;

#[cfg(feature = "coder")]
mod frames;
#[cfg(feature = "coder")]
mod packing;

#[cfg(feature = "formats")]
pub use computed_base::ComputedBase;
#[cfg(any(feature = "formats", feature = "threads"))]
pub use decode::decode;
#[cfg(any(feature = "reader", feature = "threads"))]
pub use decode::decode_frame;
#[cfg(feature = "reader")]
pub use frame_reads::{compiled_module, decode_header, decode_part, part_ranges, plane_sizes};
#[cfg(feature = "coder")]
pub use frames::{compress, compress_delta, decompress, decompress_delta};
#[cfg(feature = "formats")]
pub use model::Model;
#[cfg(feature = "formats")]
pub use opening::{Assembly, Catalog, Opening, ShardIndex};
#[cfg(feature = "coder")]
pub use packing::{DeltaPacking, Packing};
#[cfg(feature = "formats")]
pub use part::Part;
#[cfg(feature = "gpu")]
pub use shader_lists::shader_lists;
#[cfg(feature = "formats")]
pub use unpacked::Unpacked;
#[cfg(feature = "formats")]
pub use virtual_header::{is_other_format, virtual_header_of_bytes};
#[cfg(feature = "threads")]
pub use wasm_bindgen_rayon::init_thread_pool;
