//! Input arguments: paths, addresses, and files whose bytes come from callbacks.

use std::borrow::Cow;
use std::ffi::{c_char, c_void};
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use zstn::source::HttpOptions;
use zstn::{Error, Input, Location, Source};

use crate::pointer::{self, Structure};
use crate::status::Failure;

/// A file that callbacks read. Its bytes must not change while it is open.
///
/// The callbacks are called from any thread, several at a time. A callback that waits
/// delays only the call that needs its bytes. No C++ exception and no `longjmp` may
/// leave a callback.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zstn_io {
    /// `sizeof(zstn_io)`.
    pub struct_size: usize,
    /// Passed to the callbacks unchanged.
    pub ctx: *mut c_void,
    /// Reads up to `len` bytes at `offset` into `buffer` and returns the number of
    /// bytes read. It may return fewer than `len`; 0 means the end of the file. A
    /// negative result is an error; the error message contains its number.
    pub read_at: Option<
        unsafe extern "C" fn(ctx: *mut c_void, offset: u64, buffer: *mut c_void, len: usize) -> i64,
    >,
    /// Called once, from any thread, when the library no longer needs `ctx`; may be
    /// NULL. It is called even if the function that received this structure fails,
    /// unless this structure is itself refused (wrong size, or no `read_at`).
    pub release: Option<unsafe extern "C" fn(ctx: *mut c_void)>,
    /// Name of the file in error messages; it is copied and may be NULL.
    pub name: *const c_char,
}

// SAFETY: the fields are pointers, so zeros are valid and no padding follows them.
unsafe impl Structure for zstn_io {}

/// A [`Source`] whose bytes come from callbacks of the caller.
pub struct CallbackSource {
    io: zstn_io,
    name: String,
    len_bytes: u64,
}

// SAFETY: the header requires that any thread may call the callbacks at any time.
unsafe impl Send for CallbackSource {}
// SAFETY: the header requires that several threads may call the callbacks at once.
unsafe impl Sync for CallbackSource {}

impl CallbackSource {
    /// Takes the callbacks for a file of `len_bytes` bytes, and ownership of their
    /// context.
    ///
    /// # Safety
    /// `io` is NULL or valid, and its callbacks stay valid until `release` is called.
    pub unsafe fn new(io: *const zstn_io, len_bytes: u64) -> Result<Self, Failure> {
        // SAFETY: this function requires that `io` is NULL or valid.
        let io = unsafe { pointer::structure(io, "zstn_io") }?;
        let io = io.ok_or_else(|| Failure::usage("zstn_io is NULL"))?;
        if io.read_at.is_none() {
            return Err(Failure::usage("read_at of zstn_io is NULL"));
        }
        let mut source = Self {
            io,
            name: String::new(),
            len_bytes,
        };
        // SAFETY: `io` is valid, so its name is NULL or a NUL-terminated string.
        let name = unsafe { pointer::optional_text(io.name, "the name") }?;
        source.name = name.unwrap_or("the input").into();
        Ok(source)
    }

    fn failed(&self, detail: String) -> Error {
        Error::io(format!("read {}", self.name), io::Error::other(detail))
    }
}

impl Drop for CallbackSource {
    fn drop(&mut self) {
        if let Some(release) = self.io.release {
            // SAFETY: `new` requires a valid callback; it is called once, with its own
            // context.
            unsafe { release(self.io.ctx) }
        }
    }
}

impl Source for CallbackSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read(&self, range: Range<u64>) -> zstn::Result<Cow<'_, [u8]>> {
        let len_bytes = range.end.saturating_sub(range.start);
        let mut bytes = zstn::zstn_core::bytes::buffer(len_bytes)?;
        self.read_into(range.start, &mut bytes)?;
        Ok(Cow::Owned(bytes))
    }

    fn read_into(&self, start: u64, mut out: &mut [u8]) -> zstn::Result<()> {
        let (mut offset, end) = (start, start.saturating_add(out.len() as u64));
        if end > self.len_bytes {
            let detail = format!("bytes {start}..{end} are outside the input");
            return Err(self.failed(detail));
        }
        let Some(read_at) = self.io.read_at else {
            return Err(self.failed("there is no callback".into()));
        };
        while !out.is_empty() {
            // SAFETY: `new` requires a valid callback; `out` has the length that it is
            // given.
            let read = unsafe { read_at(self.io.ctx, offset, out.as_mut_ptr().cast(), out.len()) };
            let len = match usize::try_from(read) {
                Err(_) => return Err(self.failed(format!("read_at returned {read} at {offset}"))),
                Ok(0) => {
                    let len_bytes = self.len_bytes;
                    return Err(
                        self.failed(format!("the input ends at byte {offset} of {len_bytes}"))
                    );
                }
                Ok(len) if len > out.len() => {
                    let wanted = out.len();
                    return Err(self.failed(format!(
                        "read_at returned {len} at {offset}, where {wanted} bytes were wanted"
                    )));
                }
                Ok(len) => len,
            };
            out = &mut out[len..];
            offset += len as u64;
        }
        Ok(())
    }

    // A callback may wait, which must not happen on a thread of the engine.
    fn is_remote(&self) -> bool {
        true
    }
}

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
    let Some(given) = (unsafe { pointer::structure(input, what) })? else {
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
