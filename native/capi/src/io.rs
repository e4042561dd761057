//! Inputs that callbacks read.

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
/// The callbacks are called by any thread, several at the same time; one that
/// waits keeps no other from working. They must not throw exceptions or jump out.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zstn_io {
    /// `sizeof(zstn_io)`.
    pub struct_size: usize,
    /// Passed to the callbacks.
    pub ctx: *mut c_void,
    /// Reads up to `len` bytes at `offset` into `buffer` and returns how many it
    /// has read. Fewer than `len` are fine; 0 means that there are no more. A
    /// negative result is an error, whose number appears in the message.
    pub read_at: Option<
        unsafe extern "C" fn(ctx: *mut c_void, offset: u64, buffer: *mut c_void, len: usize) -> i64,
    >,
    /// Called once when `ctx` is not needed any more, by any thread; may be NULL.
    /// It is also called if the function that was given the structure fails,
    /// unless the structure itself is not valid.
    pub release: Option<unsafe extern "C" fn(ctx: *mut c_void)>,
    /// Name for messages, which is copied; may be NULL.
    pub name: *const c_char,
}

// SAFETY: such a structure: it consists of pointers.
unsafe impl Structure for zstn_io {}

/// An input that callbacks read.
pub struct CallbackSource {
    io: zstn_io,
    name: String,
    len_bytes: u64,
}

// SAFETY: the header demands callbacks that any thread may call at any time.
unsafe impl Send for CallbackSource {}
// SAFETY: the same.
unsafe impl Sync for CallbackSource {}

impl CallbackSource {
    /// Takes the callbacks of the caller for a file of `len_bytes`, and from now
    /// on its context.
    ///
    /// # Safety
    /// `io` is NULL or valid, and its callbacks are until `release` is called.
    pub unsafe fn new(io: *const zstn_io, len_bytes: u64) -> std::result::Result<Self, Failure> {
        // SAFETY: see above.
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
        // SAFETY: see above.
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
            // SAFETY: the callback of this context, called once.
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
        let mut bytes = zstn::core::bytes::buffer(len_bytes)?;
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
            // SAFETY: a callback of the caller with its context, and a buffer of
            // that length.
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

    // They may wait, which a thread of the engine must not.
    fn is_remote(&self) -> bool {
        true
    }
}
