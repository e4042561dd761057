//! libzstn, the C interface of [`zstn`]. `include/zstn.h` is generated from this crate,
//! and `docs/c.md` is its guide.
//!
//! Every function checks its pointers for NULL, catches panics and reports errors only
//! to its caller. The formats themselves are handled in [`zstn`].

// Almost all functions here dereference pointers from C. Each `unsafe` block states why
// its pointers are valid.
#![allow(unsafe_code)]
#![warn(clippy::undocumented_unsafe_blocks)]
// Types have the names that they have in the header.
#![allow(non_camel_case_types)]
// The introduction of the header states which pointers are valid; repeating that on
// every function would only lengthen the header.
#![allow(clippy::missing_safety_doc)]
#![deny(clippy::print_stderr, clippy::print_stdout)]

// In the order of the header; rustfmt would sort modules without blank lines between
// them.
mod version;

mod status;

mod engine;

mod progress;

mod model;

mod opening;

mod plan;

mod io;

mod input;

mod reader;

mod unpacked;

mod sink;

mod report;

mod checkpoint;

mod handle;
mod pointer;
mod strings;
mod structure;

// `tests/fuzz` is a Rust crate and imports these items; C programs link the symbols.
#[cfg(fuzzing)]
pub use self::{
    checkpoint::{zstn_verify, zstn_work_options},
    engine::{zstn_engine, zstn_engine_free, zstn_engine_new},
    input::zstn_input,
    io::zstn_io,
    model::*,
    opening::*,
    plan::*,
    reader::*,
    report::zstn_report,
    status::{
        ZSTN_ERROR_FORMAT, ZSTN_ERROR_IO, ZSTN_ERROR_MEMORY, ZSTN_ERROR_NEEDS_BASE,
        ZSTN_ERROR_NOT_FOUND, ZSTN_ERROR_UNSUPPORTED, ZSTN_ERROR_USAGE, ZSTN_OK, zstn_error,
        zstn_status,
    },
    unpacked::*,
};

/// Asserts at compile time that the types that threads may share are `Send` and `Sync`.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<engine::zstn_engine>();
    is_shared::<model::zstn_model>();
    is_shared::<plan::zstn_plan>();
    is_shared::<reader::zstn_reader>();
    is_shared::<opening::zstn_opening>();
};
