//! Inputs whose bytes come from callbacks.

use std::borrow::Cow;
use std::ffi::{c_char, c_void};
use std::io;
use std::ops::Range;

use zstn::{Error, Result, Source};

use crate::pointer;
use crate::status::Failure;
use crate::structure::{self, Structure};

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
    pub unsafe fn new(io: *const zstn_io, len_bytes: u64) -> std::result::Result<Self, Failure> {
        // SAFETY: this function requires that `io` is NULL or valid.
        let io = unsafe { structure::read(io, "zstn_io") }?;
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

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        let len_bytes = range.end.saturating_sub(range.start);
        let mut bytes = zstn::zstn_core::bytes::buffer(len_bytes)?;
        self.read_into(range.start, &mut bytes)?;
        Ok(Cow::Owned(bytes))
    }

    fn read_into(&self, start: u64, mut out: &mut [u8]) -> Result<()> {
        let (mut offset, end) = (start, start.saturating_add(out.len() as u64));
        if end > self.len_bytes {
            let detail = format!("there are no bytes {start}..{end}");
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
