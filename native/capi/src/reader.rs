//! Opened models that read for themselves.

use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::OnceLock;

use zstn::{Input, Reader, ReaderOptions, SafetensorsView, View};

use crate::engine::{self, zstn_engine};
use crate::handle::{self, Out};
use crate::input;
use crate::io::{CallbackSource, zstn_io};
use crate::model::zstn_model;
use crate::plan::ZSTN_ALL_ROWS;
use crate::pointer;
use crate::progress::{Watch, zstn_progress};
use crate::status::{self, Failure, zstn_error, zstn_status};
use crate::structure::{self, Structure};

/// An opened model. Any number of threads may read from one at the same time.
pub struct zstn_reader {
    pub reader: Reader,
    model: zstn_model,
    /// Memory for decoded tensors of `unpacked`.
    pub cache_bytes: u64,
    /// Made when it is first asked for.
    pub unpacked: OnceLock<SafetensorsView>,
}

/// Weights in the formats of compressed-tensors are read dense, if a `config.json`
/// next to the files says how they are stored.
pub const ZSTN_VIEW_DENSE: i32 = 0;
/// Every tensor is read as it is stored.
pub const ZSTN_VIEW_STORED: i32 = 1;

/// Options for opening a model. Zeros ask for what is usual.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zstn_open_options {
    /// `sizeof(zstn_open_options)`.
    pub struct_size: usize,
    /// Decodes the tensors; NULL for the shared engine.
    pub engine: *const zstn_engine,
    /// The base of a delta, opened with `ZSTN_VIEW_STORED`; NULL for none. It may
    /// be freed after the call.
    pub base: *const zstn_reader,
    /// Token for the server of an address, which no other server receives; NULL
    /// for none. `hf://` addresses have that of `$HF_TOKEN` by default.
    pub token: *const c_char,
    /// Bytes of decoded tensors that are kept for further calls of
    /// `zstn_unpacked_read_at`; 0 for 256 MiB.
    pub cache_len: u64,
    /// `ZSTN_VIEW_DENSE` or `ZSTN_VIEW_STORED`.
    pub view: i32,
    /// 0.
    pub reserved: i32,
    /// The longest file that is read whole from a server that ignores range requests;
    /// 0 for 64 MiB, 1 to refuse such servers.
    pub max_full_download_len: u64,
}

// SAFETY: such a structure: it ends in an even number of 32 bits.
unsafe impl Structure for zstn_open_options {}

const CACHE_BYTES: u64 = 256 << 20;

/// Options of the caller as those of the library.
struct Options<'a> {
    options: ReaderOptions,
    base: Option<&'a zstn_reader>,
    cache_bytes: u64,
}

impl Options<'_> {
    /// # Safety
    /// `given` is NULL or valid, and so is all that it points to.
    unsafe fn new(given: *const zstn_open_options, url: Option<&str>) -> Result<Self, Failure> {
        // SAFETY: see above.
        let given = unsafe { structure::read(given, "the options") }?;
        let given = given.unwrap_or_else(structure::zeroed);
        if given.reserved != 0 {
            return Err(Failure::usage("reserved of the options is not 0"));
        }
        let view = match given.view {
            ZSTN_VIEW_DENSE => View::Dense,
            ZSTN_VIEW_STORED => View::Stored,
            other => return Err(Failure::usage(format!("there is no view {other}"))),
        };
        // SAFETY: NULL or a handle.
        let engine = unsafe { engine::of(given.engine) };
        // SAFETY: NULL or a text.
        let mut http = unsafe { input::http(given.token, url) }?;
        if given.max_full_download_len > 0 {
            http.max_full_download_bytes = given.max_full_download_len;
        }
        Ok(Self {
            options: Reader::options().engine(&engine).view(view).http(http),
            // SAFETY: NULL or a handle.
            base: unsafe { given.base.as_ref() },
            cache_bytes: match given.cache_len {
                0 => CACHE_BYTES,
                len => len,
            },
        })
    }

    fn open(&self, input: Input) -> Result<zstn_reader, Failure> {
        let mut reader = self.options.open(input)?;
        if let Some(base) = self.base {
            reader = reader.with_base(base.reader.clone())?;
        }
        Ok(zstn_reader {
            model: zstn_model::of_reader(&reader),
            reader,
            cache_bytes: self.cache_bytes,
            unpacked: OnceLock::new(),
        })
    }
}

/// Opens a model of any kind: a file, the index of a checkpoint in several files,
/// or a folder that holds one. `options` may be NULL. The path is as the system
/// takes it, UTF-8 on Windows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_open_path(
    path: *const c_char,
    options: *const zstn_open_options,
    reader: *mut *mut zstn_reader,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: an out parameter, as the header says.
        let out = unsafe { Out::new(reader) }?;
        // SAFETY: NULL or a text.
        let path = unsafe { input::path(path) }?;
        let path = path.ok_or_else(|| Failure::usage("the path is NULL"))?;
        // SAFETY: NULL or options of the caller.
        let options = unsafe { Options::new(options, None) }?;
        out.set(options.open(path.into())?);
        Ok(())
    })
}

/// Opens a model at an address: `https://...`, or `hf://OWNER/NAME/FILE` for a file
/// of a model hub. Only what is read is fetched. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_open_url(
    url: *const c_char,
    options: *const zstn_open_options,
    reader: *mut *mut zstn_reader,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: an out parameter, as the header says.
        let out = unsafe { Out::new(reader) }?;
        // SAFETY: NULL or a text.
        let url = unsafe { pointer::text(url, "the address") }?;
        // SAFETY: NULL or options of the caller.
        let options = unsafe { Options::new(options, Some(url)) }?;
        out.set(options.open(zstn::Location::url(url).into())?);
        Ok(())
    })
}

/// Opens a model in one file of `len` bytes that callbacks read. The structure is
/// copied. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_open_io(
    io: *const zstn_io,
    len: u64,
    options: *const zstn_open_options,
    reader: *mut *mut zstn_reader,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: NULL or callbacks of the caller. First, so that their context
        // is released whatever else is wrong.
        let source = unsafe { CallbackSource::new(io, len) };
        // SAFETY: an out parameter, as the header says.
        let out = unsafe { Out::new(reader) }?;
        // SAFETY: NULL or options of the caller.
        let options = unsafe { Options::new(options, None) }?;
        out.set(options.open(Input::source(source?))?);
        Ok(())
    })
}

/// Returns the list of the reader's tensors, which belongs to the reader: do not
/// free it. NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_reader_model(reader: *const zstn_reader) -> *const zstn_model {
    // SAFETY: NULL or a handle, as the header says.
    match unsafe { reader.as_ref() } {
        Some(reader) => &raw const reader.model,
        None => ptr::null(),
    }
}

/// Reads a tensor into `out`, which has room for `capacity` bytes and at least
/// its length. What the file has checksums of is compared with them. `out` may
/// hold anything after an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_read(
    reader: *const zstn_reader,
    name: *const c_char,
    out: *mut c_void,
    capacity: usize,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: NULL or a handle, as the header says.
        let reader = &unsafe { pointer::reference(reader, "the reader") }?.reader;
        // SAFETY: NULL or a text.
        let name = unsafe { pointer::text(name, "the name") }?;
        let len_bytes = reader.find(name)?.len_bytes();
        // SAFETY: a buffer of the caller.
        let out = unsafe { pointer::buffer(out, capacity, len_bytes) }?;
        Ok(reader.read_into(name, out)?)
    })
}

/// Reads rows `row_begin` up to, not including, `row_end` of a tensor: slices of
/// its outermost dimension, each as long as the tensor divided by `shape[0]`. No
/// more is read of the file than the blocks that hold them, where the tensor is
/// stored so. Otherwise as `zstn_read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_read_rows(
    reader: *const zstn_reader,
    name: *const c_char,
    row_begin: u64,
    row_end: u64,
    out: *mut c_void,
    capacity: usize,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: NULL or a handle, as the header says.
        let reader = &unsafe { pointer::reference(reader, "the reader") }?.reader;
        // SAFETY: NULL or a text.
        let name = unsafe { pointer::text(name, "the name") }?;
        let row_end = match row_end {
            ZSTN_ALL_ROWS => reader.find(name)?.shape.first().copied().unwrap_or(0),
            end => end,
        };
        let rows = reader.plan_rows(name, row_begin..row_end)?;
        let len_bytes = rows.span().end - rows.span().start;
        // SAFETY: a buffer of the caller.
        let out = unsafe { pointer::buffer(out, capacity, len_bytes) }?;
        out.copy_from_slice(&reader.read_planned(&rows)?.bytes);
        Ok(())
    })
}

/// A tensor to read, and where to.
#[repr(C)]
pub struct zstn_target {
    /// Number of the tensor.
    pub tensor: usize,
    /// The buffer.
    pub out: *mut c_void,
    /// Bytes that the buffer has room for.
    pub capacity: usize,
}

/// Reads several tensors at one go: many are decoded at the same time, and from a
/// server or callbacks the next ones are fetched meanwhile. `progress` may be
/// NULL; `ctx` is passed to it. No two buffers may overlap; they may hold anything
/// after an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_read_many(
    reader: *const zstn_reader,
    targets: *const zstn_target,
    target_count: usize,
    progress: zstn_progress,
    ctx: *mut c_void,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: NULL or a handle, as the header says.
        let reader = &unsafe { pointer::reference(reader, "the reader") }?.reader;
        // SAFETY: a list of the caller.
        let targets = unsafe { pointer::list(targets, target_count, "the list of targets") }?;
        let mut wanted = Vec::with_capacity(targets.len());
        for target in targets {
            let tensor = reader.model().tensor(target.tensor)?;
            let len_bytes = tensor.len_bytes();
            // SAFETY: a buffer of the caller, which overlaps no other.
            let out = unsafe { pointer::buffer(target.out, target.capacity, len_bytes) }?;
            wanted.push((&*tensor.name, out));
        }
        let watch = Watch::new(progress, ctx);
        watch.run(|| reader.read_many_into(wanted, &watch))
    })
}

/// Frees a reader and closes its files. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_reader_free(reader: *mut zstn_reader) {
    // SAFETY: a handle that is not used any more, or NULL.
    unsafe { handle::free(reader) }
}
