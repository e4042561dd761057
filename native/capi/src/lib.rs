//! libzstn, the C interface of [`zstn`]: `include/zstn.h` is generated from this
//! crate, and `docs/c.md` explains it.
//!
//! Every function checks its pointers for NULL, catches panics and reports
//! errors to its caller alone. It decides nothing about formats.

// Pointers of C are all that this crate works with. Each use says what makes it
// valid.
#![allow(unsafe_code)]
#![warn(clippy::undocumented_unsafe_blocks)]
// Types are called as in the header.
#![allow(non_camel_case_types)]
// The documentation is that of the header, which states what pointers have to be
// in its introduction.
#![allow(clippy::missing_safety_doc)]
#![deny(clippy::print_stderr, clippy::print_stdout)]

// In the order of the header; rustfmt sorts what has no blank line between.
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

// For `tests/fuzz`, which is a crate of Rust; C knows functions by their symbols.
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

/// Checks the header's promises about threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<engine::zstn_engine>();
    is_shared::<model::zstn_model>();
    is_shared::<plan::zstn_plan>();
    is_shared::<reader::zstn_reader>();
    is_shared::<opening::zstn_opening>();
};
