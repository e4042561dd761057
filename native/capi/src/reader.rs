//! Readers: opened models that read files, addresses and callbacks themselves, and that
//! serve the equivalent safetensors file by range.

use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::OnceLock;

use zstn::{Input, Reader, ReaderOptions, SafetensorsView, Selection, View};

use crate::engine::{self, zstn_engine};
use crate::input::{self, CallbackSource, zstn_io};
use crate::model::zstn_model;
use crate::plan::ZSTN_ALL_ROWS;
use crate::pointer::{self, Out, Structure};
use crate::progress::{Watch, zstn_progress};
use crate::status::{self, Failure, zstn_error, zstn_status};

/// An opened model. Any number of threads may read from it at the same time.
pub struct zstn_reader {
    pub reader: Reader,
    model: zstn_model,
    /// Capacity in bytes of the cache of decoded tensors in `unpacked`.
    cache_bytes: u64,
    /// Created by the first `zstn_unpacked_describe` or `zstn_unpacked_read_at`.
    unpacked: OnceLock<SafetensorsView>,
}

/// Weights stored in a compressed-tensors format are returned dense, if a `config.json`
/// in the same folder describes the format.
pub const ZSTN_VIEW_DENSE: i32 = 0;
/// Every tensor is returned exactly as it is stored.
pub const ZSTN_VIEW_STORED: i32 = 1;

/// Options for opening a model. A field that is 0 or NULL selects its default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zstn_open_options {
    /// `sizeof(zstn_open_options)`.
    pub struct_size: usize,
    /// The threads that decode the tensors; NULL for the shared engine.
    pub engine: *const zstn_engine,
    /// The base of a delta, opened with `ZSTN_VIEW_STORED`; NULL for none. It may be
    /// freed after the call.
    pub base: *const zstn_reader,
    /// Token sent to the server in the address, and to no other server; NULL for none,
    /// or for the token in `$HF_TOKEN` with an `hf://` address.
    pub token: *const c_char,
    /// Capacity in bytes of the cache of decoded tensors for `zstn_unpacked_read_at`; 0
    /// for 256 MiB.
    pub cache_len: u64,
    /// `ZSTN_VIEW_DENSE` or `ZSTN_VIEW_STORED`.
    pub view: i32,
    /// Must be 0.
    pub reserved: i32,
    /// Length in bytes of the longest file that is downloaded whole from a server that
    /// ignores range requests; 0 for 64 MiB, 1 to refuse such servers.
    pub max_full_download_len: u64,
    /// Only for a merged model, and instead of `base`: the checkpoints that it was packed
    /// against, in the same order. Open each with `ZSTN_VIEW_STORED`, and a delta also with
    /// its own bases. They may be freed after the call.
    pub bases: *const *const zstn_reader,
    /// Number of elements in `bases`; 0 for none.
    pub base_count: usize,
}

// SAFETY: zeros are valid, and the last field is as long as a pointer, so no padding
// follows it.
unsafe impl Structure for zstn_open_options {}

const CACHE_BYTES: u64 = 256 << 20;

/// The options of one call, converted from `zstn_open_options`.
struct Options {
    options: ReaderOptions,
    bases: Vec<Reader>,
    cache_bytes: u64,
}

impl Options {
    /// Converts the options; `url` is the address of the model, if it has one.
    ///
    /// # Safety
    /// `given` is NULL or valid, and so is everything that it points to.
    unsafe fn new(given: *const zstn_open_options, url: Option<&str>) -> Result<Self, Failure> {
        // SAFETY: this function requires that `given` is NULL or valid.
        let given = unsafe { pointer::structure(given, "the options") }?;
        let given = given.unwrap_or_else(pointer::zeroed);
        if given.reserved != 0 {
            return Err(Failure::usage("the field reserved of the options is not 0"));
        }
        let view = match given.view {
            ZSTN_VIEW_DENSE => View::Dense,
            ZSTN_VIEW_STORED => View::Stored,
            other => return Err(Failure::usage(format!("there is no view {other}"))),
        };
        // SAFETY: `given` is valid, so its engine is NULL or a live handle.
        let engine = unsafe { engine::of(given.engine) };
        // SAFETY: `given` is valid, so its token is NULL or a NUL-terminated string.
        let mut http = unsafe { input::http(given.token, url) }?;
        if given.max_full_download_len > 0 {
            http.max_full_download_bytes = given.max_full_download_len;
        }
        Ok(Self {
            options: Reader::options().engine(&engine).view(view).http(http),
            // SAFETY: `given` is valid, so its bases are too.
            bases: unsafe { bases(&given) }?,
            cache_bytes: match given.cache_len {
                0 => CACHE_BYTES,
                len => len,
            },
        })
    }

    fn open(&self, input: Input) -> Result<zstn_reader, Failure> {
        let mut reader = self.options.open(input)?;
        if !self.bases.is_empty() {
            reader = reader.with_bases(self.bases.clone())?;
        }
        Ok(zstn_reader {
            model: zstn_model::of_reader(&reader),
            reader,
            cache_bytes: self.cache_bytes,
            unpacked: OnceLock::new(),
        })
    }
}

/// Returns the bases in the options.
///
/// # Safety
/// `base` is NULL or a live handle, and `bases` is NULL or has `base_count` pointers, each
/// NULL or a live handle.
unsafe fn bases(options: &zstn_open_options) -> Result<Vec<Reader>, Failure> {
    // SAFETY: this function requires that the base is NULL or a live handle.
    let base = unsafe { options.base.as_ref() };
    // SAFETY: this function requires that the list is NULL or has `base_count` pointers.
    let bases = unsafe { pointer::list(options.bases, options.base_count, "the list of bases") }?;
    if base.is_some() && !bases.is_empty() {
        return Err(Failure::usage("the options have both base and bases"));
    }
    let bases = bases.iter().map(|base| {
        // SAFETY: this function requires that each is NULL or a live handle.
        unsafe { base.as_ref() }.ok_or_else(|| Failure::usage("a base is NULL"))
    });
    let bases = base.map(Ok).into_iter().chain(bases);
    bases.map(|base| Ok(base?.reader.clone())).collect()
}

/// Opens a model in any format: a file, the index of a checkpoint that has several
/// files, or a folder that contains one checkpoint. `options` may be NULL. The path
/// consists of arbitrary bytes on Unix, and is UTF-8 on Windows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_open_path(
    path: *const c_char,
    options: *const zstn_open_options,
    reader: *mut *mut zstn_reader,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that `reader` is NULL or a writable address.
        let out = unsafe { Out::new(reader) }?;
        // SAFETY: the header requires that `path` is NULL or a NUL-terminated string.
        let path = unsafe { input::path(path) }?;
        let path = path.ok_or_else(|| Failure::usage("the path is NULL"))?;
        // SAFETY: the header requires that `options` is NULL or a valid structure.
        let options = unsafe { Options::new(options, None) }?;
        out.set(options.open(path.into())?);
        Ok(())
    })
}

/// Opens a model at an address: `https://...`, or `hf://OWNER/NAME/FILE` for a file of
/// a model hub. Only the ranges that are read are fetched. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_open_url(
    url: *const c_char,
    options: *const zstn_open_options,
    reader: *mut *mut zstn_reader,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that `reader` is NULL or a writable address.
        let out = unsafe { Out::new(reader) }?;
        // SAFETY: the header requires that `url` is NULL or a NUL-terminated string.
        let url = unsafe { pointer::text(url, "the address") }?;
        // SAFETY: the header requires that `options` is NULL or a valid structure.
        let options = unsafe { Options::new(options, Some(url)) }?;
        out.set(options.open(zstn::Location::url(url).into())?);
        Ok(())
    })
}

/// Opens a model that is a single file of `len` bytes, read by callbacks. `io` is
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
        // SAFETY: the header requires that `io` is NULL or valid. It comes first, so
        // that the context is released even if another argument is refused.
        let source = unsafe { CallbackSource::new(io, len) };
        // SAFETY: the header requires that `reader` is NULL or a writable address.
        let out = unsafe { Out::new(reader) }?;
        // SAFETY: the header requires that `options` is NULL or a valid structure.
        let options = unsafe { Options::new(options, None) }?;
        out.set(options.open(Input::source(source?))?);
        Ok(())
    })
}

/// Returns the list of the reader's tensors, or NULL for NULL. It belongs to the
/// reader: do not free it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_reader_model(reader: *const zstn_reader) -> *const zstn_model {
    // SAFETY: the header requires that `reader` is NULL or a live handle.
    match unsafe { reader.as_ref() } {
        Some(reader) => &raw const reader.model,
        None => ptr::null(),
    }
}

/// Reads a tensor into `out`, whose capacity in bytes must be at least the tensor's
/// length. Bytes that the file has checksums for are verified. After an error, the
/// content of `out` is undefined.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_read(
    reader: *const zstn_reader,
    name: *const c_char,
    out: *mut c_void,
    capacity: usize,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that `reader` is NULL or a live handle.
        let reader = &unsafe { pointer::reference(reader, "the reader") }?.reader;
        // SAFETY: the header requires that `name` is NULL or a NUL-terminated string.
        let name = unsafe { pointer::text(name, "the name") }?;
        let len_bytes = reader.find(name)?.len_bytes();
        // SAFETY: the header requires that `out` is NULL or a buffer of that capacity.
        let out = unsafe { pointer::buffer(out, capacity, len_bytes) }?;
        Ok(reader.read_into(name, out)?)
    })
}

/// Reads the rows of a tensor from `row_begin` up to, but not including, `row_end`.
/// Rows are slices of the outermost dimension; each is as long as the tensor divided by
/// `shape[0]`. If the tensor is stored in blocks, only the blocks that contain these
/// rows are read. Otherwise the same as `zstn_read`.
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
        // SAFETY: the header requires that `reader` is NULL or a live handle.
        let reader = &unsafe { pointer::reference(reader, "the reader") }?.reader;
        // SAFETY: the header requires that `name` is NULL or a NUL-terminated string.
        let name = unsafe { pointer::text(name, "the name") }?;
        let row_end = match row_end {
            ZSTN_ALL_ROWS => reader.find(name)?.shape.first().copied().unwrap_or(0),
            end => end,
        };
        let rows = reader.plan_rows(name, row_begin..row_end)?;
        let len_bytes = rows.span().end - rows.span().start;
        // SAFETY: the header requires that `out` is NULL or a buffer of that capacity.
        let out = unsafe { pointer::buffer(out, capacity, len_bytes) }?;
        out.copy_from_slice(&reader.read_planned(&rows)?.bytes);
        Ok(())
    })
}

/// The selected indices of one axis.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zstn_axis {
    /// The first index.
    pub begin: u64,
    /// The index to stop before; `ZSTN_ALL_ROWS` for all indices up to the last.
    pub end: u64,
}

/// Reads a part of a tensor: the elements at the selected indices of every axis, in
/// row-major order. `axes` describes the first `axis_count` axes, outermost first; the
/// others are selected whole. Only the blocks that contain the part are read. Otherwise
/// the same as `zstn_read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_read_select(
    reader: *const zstn_reader,
    name: *const c_char,
    axes: *const zstn_axis,
    axis_count: usize,
    out: *mut c_void,
    capacity: usize,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that `reader` is NULL or a live handle.
        let reader = &unsafe { pointer::reference(reader, "the reader") }?.reader;
        // SAFETY: the header requires that `name` is NULL or a NUL-terminated string.
        let name = unsafe { pointer::text(name, "the name") }?;
        // SAFETY: the header requires that `axes` is NULL or a list of that length.
        let axes = unsafe { pointer::list(axes, axis_count, "the list of axes") }?;
        let tensor = reader.find(name)?;
        let ranges = axes.iter().enumerate().map(|(axis, selected)| {
            let len = tensor.shape.get(axis).copied().unwrap_or(0);
            match selected.end {
                ZSTN_ALL_ROWS => selected.begin..len,
                end => selected.begin..end,
            }
        });
        let selection = Selection::ranges(tensor, &ranges.collect::<Vec<_>>())?;
        // SAFETY: the header requires that `out` is NULL or a buffer of that capacity.
        let out = unsafe { pointer::buffer(out, capacity, selection.len_bytes()) }?;
        Ok(reader.read_selection_into(&selection, out)?)
    })
}

/// A tensor to read, and the buffer for it.
#[repr(C)]
pub struct zstn_target {
    /// Number of the tensor.
    pub tensor: usize,
    /// Memory that receives the tensor.
    pub out: *mut c_void,
    /// Capacity of `out` in bytes.
    pub capacity: usize,
}

/// Reads several tensors at once: many are decoded at a time, and from a server or
/// callbacks the next ones are fetched meanwhile. `progress` may be NULL; `ctx` is
/// passed to it. The buffers must not overlap; after an error, their content is
/// undefined.
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
        // SAFETY: the header requires that `reader` is NULL or a live handle.
        let reader = &unsafe { pointer::reference(reader, "the reader") }?.reader;
        // SAFETY: the header requires that `targets` is NULL or a list of that length.
        let targets = unsafe { pointer::list(targets, target_count, "the list of targets") }?;
        let mut wanted = Vec::with_capacity(targets.len());
        for target in targets {
            let tensor = reader.model().tensor(target.tensor)?;
            let len_bytes = tensor.len_bytes();
            // SAFETY: the header requires a valid buffer that overlaps no other.
            let out = unsafe { pointer::buffer(target.out, target.capacity, len_bytes) }?;
            wanted.push((&*tensor.name, out));
        }
        let watch = Watch::new(progress, ctx);
        Ok(reader.read_many_into(wanted, &watch)?)
    })
}

/// Frees a reader and closes its files. Does nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_reader_free(reader: *mut zstn_reader) {
    // SAFETY: the header requires that `reader` is NULL or a live handle that is not used
    // again.
    unsafe { pointer::free(reader) }
}

/// The safetensors file that a model is read as. The caller sets `struct_size`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zstn_unpacked {
    /// `sizeof(zstn_unpacked)`.
    pub struct_size: usize,
    /// Length of the file in bytes.
    pub len: u64,
    /// 1 if this is, byte for byte, the file that was packed; 0 if the library made its
    /// header.
    pub is_original: i32,
    /// 1 if `sha256` is set.
    pub has_sha256: i32,
    /// SHA-256 of the file; model hubs and git-lfs identify the file by it.
    pub sha256: [u8; 32],
}

// SAFETY: zeros are valid, and the 32-bit fields are even in number, so no padding is at
// the end.
unsafe impl Structure for zstn_unpacked {}

/// Returns the safetensors file of a reader, and creates it on the first call.
fn view(reader: &zstn_reader) -> Result<&SafetensorsView, Failure> {
    if let Some(view) = reader.unpacked.get() {
        return Ok(view);
    }
    let view = SafetensorsView::new(reader.reader.clone(), reader.cache_bytes)?;
    // If another thread has been faster, its equal view is used.
    Ok(reader.unpacked.get_or_init(|| view))
}

/// Describes the safetensors file that the model is read as; for a packed file, this is
/// the file that was packed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_unpacked_describe(
    reader: *const zstn_reader,
    unpacked: *mut zstn_unpacked,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that `reader` is NULL or a live handle.
        let view = view(unsafe { pointer::reference(reader, "the reader") }?)?;
        let sha256 = view.sha256();
        let value = zstn_unpacked {
            struct_size: size_of::<zstn_unpacked>(),
            len: view.len_bytes(),
            is_original: view.is_original().into(),
            has_sha256: sha256.is_some().into(),
            sha256: sha256.copied().unwrap_or_default(),
        };
        // SAFETY: the header requires that `unpacked` is NULL or a structure with its
        // size set.
        unsafe { pointer::fill(unpacked, &value, "the structure to fill") }
    })
}

/// Reads `len` bytes at `offset` of that file; the range must lie inside the file. Only
/// the tensors in the range are decoded, and some are cached for the next call. After
/// an error, the content of `out` is undefined.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_unpacked_read_at(
    reader: *const zstn_reader,
    offset: u64,
    out: *mut c_void,
    len: usize,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that `reader` is NULL or a live handle.
        let view = view(unsafe { pointer::reference(reader, "the reader") }?)?;
        // SAFETY: the header requires that `out` is NULL or a buffer of that capacity.
        let out = unsafe { pointer::buffer(out, len, len as u64) }?;
        Ok(view.read_into(offset, out)?)
    })
}
