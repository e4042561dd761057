//! The version of the library.

use std::ffi::c_char;

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
