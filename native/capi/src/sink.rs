//! Outputs of whole checkpoints.

use std::ffi::{c_char, c_void};
use std::io::{self, Write};

use zstn::Sink;

use crate::input;
use crate::pointer;
use crate::status::Failure;
use crate::structure::{self, Structure};

/// An output that callbacks receive, in order. Bytes that were written are never
/// revised; after an error they are the beginning of a file and worth nothing.
/// The callbacks may be called by any thread, one at a time.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zstn_writer {
    /// `sizeof(zstn_writer)`.
    pub struct_size: usize,
    /// Passed to the callbacks.
    pub ctx: *mut c_void,
    /// Takes the next bytes, all of them. A result other than 0 is an error, whose
    /// number appears in the message.
    pub write:
        Option<unsafe extern "C" fn(ctx: *mut c_void, data: *const c_void, len: usize) -> i32>,
}

// SAFETY: such a structure: it consists of pointers.
unsafe impl Structure for zstn_writer {}

/// The place of an output: exactly one of `path`, `url` and `writer` is set. A file
/// or an object appears when it is complete.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zstn_output {
    /// `sizeof(zstn_output)`.
    pub struct_size: usize,
    /// Path of a file, or of a folder for a checkpoint in several.
    pub path: *const c_char,
    /// Address that is written to.
    pub url: *const c_char,
    /// Callbacks that receive a file.
    pub writer: *const zstn_writer,
}

// SAFETY: such a structure: it consists of pointers.
unsafe impl Structure for zstn_output {}

struct CallbackWriter(zstn_writer);

// SAFETY: the header demands callbacks that any thread may call.
unsafe impl Send for CallbackWriter {}

impl Write for CallbackWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(write) = self.0.write else {
            return Err(io::Error::other("there is no callback"));
        };
        if bytes.is_empty() {
            return Ok(0);
        }
        // SAFETY: a callback of the caller with its context.
        match unsafe { write(self.0.ctx, bytes.as_ptr().cast(), bytes.len()) } {
            0 => Ok(bytes.len()),
            code => Err(io::Error::other(format!("write returned {code}"))),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads an output of the caller; with `overwrite`, it replaces a file.
///
/// # Safety
/// It is NULL or valid during the call, and so is all that it points to.
pub unsafe fn required(
    output: *const zstn_output,
    overwrite: bool,
) -> Result<Sink<'static>, Failure> {
    // SAFETY: see above.
    let given = unsafe { structure::read(output, "the output") }?;
    let given = given.ok_or_else(|| Failure::usage("the output is NULL"))?;
    // SAFETY: NULL, texts, or callbacks.
    let (path, url, writer) = unsafe {
        (
            input::path(given.path)?,
            pointer::optional_text(given.url, "url")?,
            structure::read(given.writer, "zstn_writer")?,
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
