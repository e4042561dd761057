//! Input arguments of the functions for whole checkpoints.

use std::ffi::c_char;
use std::path::PathBuf;

use zstn::source::HttpOptions;
use zstn::{Input, Location};

use crate::io::{CallbackSource, zstn_io};
use crate::pointer;
use crate::status::Failure;
use crate::structure::{self, Structure};

/// The checkpoint to work on. Set exactly one of `path`, `url` and `io`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zstn_input {
    /// `sizeof(zstn_input)`.
    pub struct_size: usize,
    /// Path of a file, of the index of a checkpoint that has several files, or of a
    /// folder that contains one checkpoint.
    pub path: *const c_char,
    /// Address of a file or an index: `https://...`, `hf://OWNER/NAME/FILE`.
    pub url: *const c_char,
    /// Callbacks that read the bytes of a file.
    pub io: *const zstn_io,
    /// Length in bytes of the file that `io` reads.
    pub io_len: u64,
}

// SAFETY: zeros are valid, and the last field has 64 bits, so no padding follows it.
unsafe impl Structure for zstn_input {}

/// A converted input, with its address if it has one.
pub struct Opened<'a> {
    pub input: Input,
    pub url: Option<&'a str>,
}

/// Converts an input of the caller.
///
/// # Safety
/// `input` is NULL or valid, and so is everything that it points to.
pub unsafe fn optional<'a>(
    input: *const zstn_input,
    what: &str,
) -> Result<Option<Opened<'a>>, Failure> {
    // SAFETY: this function requires that `input` is NULL or valid.
    let Some(given) = (unsafe { structure::read(input, what) })? else {
        return Ok(None);
    };
    // Comes first, so that the context is released even if another field is refused.
    let io = match given.io.is_null() {
        true => None,
        // SAFETY: this function requires that `io` is valid if it is not NULL.
        false => Some(unsafe { CallbackSource::new(given.io, given.io_len) }?),
    };
    // SAFETY: this function requires that both are NULL or NUL-terminated strings.
    let (path, url) = unsafe { (path(given.path)?, pointer::optional_text(given.url, "url")?) };
    match (path, url, io) {
        (Some(path), None, None) => Ok(Some(Opened {
            input: path.into(),
            url: None,
        })),
        (None, Some(url), None) => Ok(Some(Opened {
            input: Location::url(url).into(),
            url: Some(url),
        })),
        (None, None, Some(io)) => Ok(Some(Opened {
            input: Input::source(io),
            url: None,
        })),
        _ => Err(Failure::usage(format!(
            "{what} has to have exactly one of path, url and io"
        ))),
    }
}

/// Converts an input of the caller; NULL is an error.
///
/// # Safety
/// `input` is NULL or valid, and so is everything that it points to.
pub unsafe fn required<'a>(input: *const zstn_input, what: &str) -> Result<Opened<'a>, Failure> {
    // SAFETY: both functions require the same.
    let input = unsafe { optional(input, what) }?;
    input.ok_or_else(|| Failure::usage(format!("{what} is NULL")))
}

/// Converts a path of the caller: arbitrary bytes on Unix, UTF-8 elsewhere.
///
/// # Safety
/// `pointer` is NULL or a NUL-terminated string that does not change during the call.
pub unsafe fn path(pointer: *const c_char) -> Result<Option<PathBuf>, Failure> {
    #[cfg(unix)]
    {
        use std::ffi::{CStr, OsStr};
        use std::os::unix::ffi::OsStrExt;
        if pointer.is_null() {
            return Ok(None);
        }
        // SAFETY: this function requires that `pointer` is a NUL-terminated string if
        // not NULL.
        let bytes = unsafe { CStr::from_ptr(pointer) }.to_bytes();
        Ok(Some(OsStr::from_bytes(bytes).into()))
    }
    #[cfg(not(unix))]
    {
        // SAFETY: both functions require the same.
        let text = unsafe { pointer::optional_text(pointer, "the path") }?;
        Ok(text.map(PathBuf::from))
    }
}

/// Returns the options for reading over HTTP. `token` is sent only to the origin of
/// `url`.
///
/// # Safety
/// `token` is NULL or a NUL-terminated string that does not change during the call.
pub unsafe fn http(token: *const c_char, url: Option<&str>) -> Result<HttpOptions, Failure> {
    let options = HttpOptions::default();
    // SAFETY: this function requires that `token` is NULL or a NUL-terminated string.
    let Some(token) = (unsafe { pointer::optional_text(token, "the token") })? else {
        return Ok(options);
    };
    let origin = url.and_then(|url| Location::url(url).origin());
    let origin = origin
        .ok_or_else(|| Failure::usage("a token was given, and the input is not read over HTTP"))?;
    Ok(options.token(&origin, token)?)
}
