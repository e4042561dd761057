//! WebAssembly shell of `zstn-core`: bytes in, bytes out. Sources, requests
//! and typed arrays are TypeScript (`wasm/ts`).
//!
//! Every error leaves as a plain object
//! `{zstn: true, kind, rule, offset, tensor, message}`.

mod catalog;
mod error;
mod opening;

pub use catalog::Catalog;
pub use opening::Opening;
