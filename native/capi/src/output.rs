//! Output arguments: paths, addresses, and callbacks that receive bytes.

use std::ffi::{c_char, c_void};
use std::io::{self, Write};

use zstn::Sink;

use crate::input;
use crate::pointer::{self, Structure};
use crate::status::Failure;

/// An output that callbacks receive in order. Bytes once written are never revised.
/// After an error, the bytes received so far are an incomplete file; discard them. The
/// callbacks may be called from any thread, but one at a time.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zstn_writer {
    /// `sizeof(zstn_writer)`.
    pub struct_size: usize,
    /// Passed to the callbacks unchanged.
    pub ctx: *mut c_void,
    /// Writes the next `len` bytes, all of them. A result other than 0 is an error; the
    /// error message contains its number.
    pub write:
        Option<unsafe extern "C" fn(ctx: *mut c_void, data: *const c_void, len: usize) -> i32>,
}

// SAFETY: the fields are pointers, so zeros are valid and no padding follows them.
unsafe impl Structure for zstn_writer {}

/// The destination of an output. Set exactly one of `path`, `url` and `writer`. A file
/// or an object appears only when it is complete.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zstn_output {
    /// `sizeof(zstn_output)`.
    pub struct_size: usize,
    /// Path of a file, or of a folder for a checkpoint that has several files.
    pub path: *const c_char,
    /// Address to write to.
    pub url: *const c_char,
    /// Callbacks that receive the bytes of a file.
    pub writer: *const zstn_writer,
}

// SAFETY: the fields are pointers, so zeros are valid and no padding follows them.
unsafe impl Structure for zstn_output {}

struct CallbackWriter(zstn_writer);

// SAFETY: the header requires that any thread may call the callbacks.
unsafe impl Send for CallbackWriter {}

impl Write for CallbackWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(write) = self.0.write else {
            return Err(io::Error::other("there is no callback"));
        };
        if bytes.is_empty() {
            return Ok(0);
        }
        // SAFETY: the header requires a valid callback, which receives its own context.
        match unsafe { write(self.0.ctx, bytes.as_ptr().cast(), bytes.len()) } {
            0 => Ok(bytes.len()),
            code => Err(io::Error::other(format!("write returned {code}"))),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Converts an output of the caller; `overwrite` allows it to replace an existing file.
///
/// # Safety
/// `output` is NULL or valid during the call, and so is everything that it points to.
pub unsafe fn required(
    output: *const zstn_output,
    overwrite: bool,
) -> Result<Sink<'static>, Failure> {
    // SAFETY: this function requires that `output` is NULL or valid.
    let given = unsafe { pointer::structure(output, "the output") }?;
    let given = given.ok_or_else(|| Failure::usage("the output is NULL"))?;
    // SAFETY: `output` is valid, so its strings and its writer are NULL or valid.
    let (path, url, writer) = unsafe {
        (
            input::path(given.path)?,
            pointer::optional_text(given.url, "url")?,
            pointer::structure(given.writer, "zstn_writer")?,
        )
    };
    let sink = match (path, url, writer) {
        (Some(path), None, None) => Sink::path(path),
        (None, Some(url), None) => Sink::url(url),
        (None, None, Some(writer)) => {
            if writer.write.is_none() {
                return Err(Failure::usage("write of zstn_writer is NULL"));
            }
            Sink::writer(CallbackWriter(writer))
        }
        _ => {
            return Err(Failure::usage(
                "the output has to have exactly one of path, url and writer",
            ));
        }
    };
    Ok(sink.overwrite(overwrite))
}
