//! Inputs of whole checkpoints.

use std::ffi::c_char;
use std::path::PathBuf;

use zstn::source::HttpOptions;
use zstn::{Input, Location};

use crate::io::{CallbackSource, zstn_io};
use crate::pointer;
use crate::status::Failure;
use crate::structure::{self, Structure};

/// A checkpoint to work on: exactly one of `path`, `url` and `io` is set.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zstn_input {
    /// `sizeof(zstn_input)`.
    pub struct_size: usize,
    /// Path of a file, of the index of a checkpoint in several files, or of a
    /// folder that holds one.
    pub path: *const c_char,
    /// Address of a file or an index: `https://...`, `hf://OWNER/NAME/FILE`.
    pub url: *const c_char,
    /// Callbacks that read a file.
    pub io: *const zstn_io,
    /// Length of that file in bytes.
    pub io_len: u64,
}

// SAFETY: such a structure: it ends in 64 bits.
unsafe impl Structure for zstn_input {}

/// An input, and the address if it is one.
pub struct Opened<'a> {
    pub input: Input,
    pub url: Option<&'a str>,
}

/// Reads an input of the caller.
///
/// # Safety
/// It is NULL or valid, and so is all that it points to.
pub unsafe fn optional<'a>(
    input: *const zstn_input,
    what: &str,
) -> Result<Option<Opened<'a>>, Failure> {
    // SAFETY: see above.
    let Some(given) = (unsafe { structure::read(input, what) })? else {
        return Ok(None);
    };
    // First, so that its context is released whatever else is wrong.
    let io = match given.io.is_null() {
        true => None,
        // SAFETY: see above.
        false => Some(unsafe { CallbackSource::new(given.io, given.io_len) }?),
    };
    // SAFETY: NULL or texts.
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

/// Reads an input of the caller that has to be there.
///
/// # Safety
/// That of [`optional`].
pub unsafe fn required<'a>(input: *const zstn_input, what: &str) -> Result<Opened<'a>, Failure> {
    // SAFETY: the same demand.
    let input = unsafe { optional(input, what) }?;
    input.ok_or_else(|| Failure::usage(format!("{what} is NULL")))
}

/// Returns a path of the caller: on Unix any bytes, elsewhere UTF-8.
///
/// # Safety
/// It is NULL or ends in a NUL, and nobody changes it during the call.
pub unsafe fn path(pointer: *const c_char) -> Result<Option<PathBuf>, Failure> {
    #[cfg(unix)]
    {
        use std::ffi::{CStr, OsStr};
        use std::os::unix::ffi::OsStrExt;
        if pointer.is_null() {
            return Ok(None);
        }
        // SAFETY: see above.
        let bytes = unsafe { CStr::from_ptr(pointer) }.to_bytes();
        Ok(Some(OsStr::from_bytes(bytes).into()))
    }
    #[cfg(not(unix))]
    {
        // SAFETY: the same demand.
        let text = unsafe { pointer::optional_text(pointer, "the path") }?;
        Ok(text.map(PathBuf::from))
    }
}

/// Returns the options for addresses. `token` goes to the origin of `url` and
/// nowhere else.
///
/// # Safety
/// `token` is NULL or ends in a NUL, and nobody changes it during the call.
pub unsafe fn http(token: *const c_char, url: Option<&str>) -> Result<HttpOptions, Failure> {
    let options = HttpOptions::default();
    // SAFETY: see above.
    let Some(token) = (unsafe { pointer::optional_text(token, "the token") })? else {
        return Ok(options);
    };
    let origin = url.and_then(|url| Location::url(url).origin());
    let origin = origin
        .ok_or_else(|| Failure::usage("a token was given, and the input is not read over HTTP"))?;
    Ok(options.with_token(&origin, token)?)
}
