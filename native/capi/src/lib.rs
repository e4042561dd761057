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
mod status;

mod engine;

mod progress;

mod model;

mod opening;

mod plan;

mod input;

mod reader;

mod gpu;

mod output;

mod checkpoint;

mod pointer;

use std::ffi::c_char;

// `tests/fuzz` is a Rust crate and imports these items; C programs link the symbols.
#[cfg(fuzzing)]
pub use self::{
    checkpoint::{zstn_report, zstn_verify, zstn_work_options},
    engine::{zstn_engine, zstn_engine_free, zstn_engine_new},
    input::{zstn_input, zstn_io},
    model::*,
    opening::*,
    plan::*,
    reader::*,
    status::{
        ZSTN_ERROR_FORMAT, ZSTN_ERROR_IO, ZSTN_ERROR_MEMORY, ZSTN_ERROR_NEEDS_BASE,
        ZSTN_ERROR_NOT_FOUND, ZSTN_ERROR_UNSUPPORTED, ZSTN_ERROR_USAGE, ZSTN_OK, zstn_error,
        zstn_status,
    },
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

/// Parses a decimal number.
const fn number(text: &str) -> u32 {
    let (digits, mut at, mut value) = (text.as_bytes(), 0, 0);
    while at < digits.len() {
        value = value * 10 + (digits[at] - b'0') as u32;
        at += 1;
    }
    value
}

const NUMBER: u32 = number(env!("CARGO_PKG_VERSION_MAJOR")) << 16
    | number(env!("CARGO_PKG_VERSION_MINOR")) << 8
    | number(env!("CARGO_PKG_VERSION_PATCH"));

/// Returns the version of the library as `0x00MMmmpp`. `ZSTN_VERSION_NUMBER` is the
/// version of the header.
#[unsafe(no_mangle)]
pub extern "C" fn zstn_version_number() -> u32 {
    NUMBER
}

/// Returns the version of the library as a string, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn zstn_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
