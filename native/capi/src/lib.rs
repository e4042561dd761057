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

/// Checks the header's promises about threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<engine::zstn_engine>();
    is_shared::<model::zstn_model>();
    is_shared::<plan::zstn_plan>();
    is_shared::<reader::zstn_reader>();
    is_shared::<opening::zstn_opening>();
};
