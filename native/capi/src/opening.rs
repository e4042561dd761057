//! Opening a file without any I/O of the library: it names the ranges that it needs,
//! and the caller fetches them.

use std::ffi::c_void;
use std::ops::Range;

use zstn::Engine;
use zstn::zstn_core::catalog::FileOpener;
use zstn::zstn_core::model::{Model, ModelBuilder};

use crate::engine::{self, zstn_engine};
use crate::model::zstn_model;
use crate::pointer::{self, Out};
use crate::status::{self, Failure, zstn_error, zstn_status};

/// A file that is being opened. Only one thread may use it at a time.
pub struct zstn_opening {
    /// `None` once `zstn_opening_finish` has taken it.
    opener: Option<FileOpener>,
}

/// A range of bytes to fetch from a file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zstn_range {
    /// Offset of the first byte from the start of the file.
    pub offset: u64,
    /// Length of the range in bytes.
    pub len: u64,
    /// Number of the file in a model that has several; 0 for the first.
    pub file: u64,
}

impl zstn_range {
    pub fn new(file: usize, range: &Range<u64>) -> Self {
        Self {
            offset: range.start,
            len: range.end - range.start,
            file: file as u64,
        }
    }
}

/// Stores the number of ranges in `count`, and the first ranges in `ranges` as far as
/// its capacity allows.
///
/// # Safety
/// `count` is NULL or points to the capacity of `ranges`, and `ranges` is NULL or has
/// that capacity.
pub unsafe fn store(
    found: impl ExactSizeIterator<Item = zstn_range>,
    ranges: *mut zstn_range,
    count: *mut usize,
) -> Result<(), Failure> {
    // SAFETY: this function requires that `count` is NULL or valid.
    let count = unsafe { pointer::exclusive(count, "the number of ranges") }?;
    let capacity = if ranges.is_null() { 0 } else { *count };
    // SAFETY: this function requires that `ranges` is NULL or has this capacity.
    let out = unsafe { pointer::list_mut(ranges, capacity, "the list of ranges") }?;
    *count = found.len();
    out.iter_mut()
        .zip(found)
        .for_each(|(to, range)| *to = range);
    Ok(())
}

impl zstn_opening {
    fn opener(&self) -> Result<&FileOpener, Failure> {
        self.opener.as_ref().ok_or_else(is_done)
    }

    fn finish(&mut self, engine: &Engine) -> Result<Model, Failure> {
        if !self.opener()?.needs()?.is_empty() {
            let detail = "zstn_opening_finish was called before all requested ranges were supplied: call zstn_opening_needs until it lists none";
            return Err(Failure::usage(detail));
        }
        let catalog = self.opener.take().ok_or_else(is_done)?.finish(engine)?;
        // An opening covers a single file without its `config.json`.
        let builder = ModelBuilder::new(vec![catalog], None, None)?;
        Ok(builder.finish(engine)?)
    }
}

fn is_done() -> Failure {
    Failure::usage("the opening is done and cannot be used any more")
}

/// Returns the number of bytes that `zstn_opening_new` needs from the start of a file
/// of `file_len` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn zstn_head_len(file_len: u64) -> u64 {
    FileOpener::head_len_bytes(file_len)
}

/// Begins to open a file of `file_len` bytes, in any format that zstn reads. `head`
/// points to its first bytes, at least `zstn_head_len(file_len)` of them; they are
/// copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_opening_new(
    file_len: u64,
    head: *const c_void,
    head_len: usize,
    opening: *mut *mut zstn_opening,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that `opening` is NULL or a writable address.
        let out = unsafe { Out::new(opening) }?;
        // SAFETY: the header requires that `head` is NULL or points to that many bytes.
        let head = unsafe { pointer::bytes(head, head_len, "the head") }?;
        if head.len() as u64 > file_len {
            return Err(Failure::usage("the head is longer than the file"));
        }
        let opener = FileOpener::new(file_len, head.to_vec())?;
        out.set(zstn_opening {
            opener: Some(opener),
        });
        Ok(())
    })
}

/// Lists the ranges that are missing. On entry `*count` is the capacity of `ranges`,
/// which may be NULL to query only the number. On return `*count` is the number of
/// missing ranges, and `ranges` contains as many of them as fit. If it is 0, call
/// `zstn_opening_finish`. The ranges do not overlap and may be fetched at the same
/// time. Once they have been supplied, call this function again; few rounds are needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_opening_needs(
    opening: *const zstn_opening,
    ranges: *mut zstn_range,
    count: *mut usize,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that `opening` is NULL or a live handle.
        let opening = unsafe { pointer::reference(opening, "the opening") }?;
        let needs = opening.opener()?.needs()?;
        let found = needs.iter().map(|range| zstn_range::new(0, range));
        // SAFETY: the header requires that `count` is NULL or the capacity of `ranges`.
        unsafe { store(found, ranges, count) }
    })
}

/// Supplies all bytes of a range that `zstn_opening_needs` has listed. They are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_opening_supply(
    opening: *mut zstn_opening,
    offset: u64,
    bytes: *const c_void,
    len: usize,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that `opening` is NULL or a live handle that only
        // this thread uses.
        let opening = unsafe { pointer::exclusive(opening, "the opening") }?;
        // SAFETY: the header requires that `bytes` is NULL or points to that many bytes.
        let bytes = unsafe { pointer::bytes(bytes, len, "the list of bytes") }?;
        let opener = opening.opener.as_mut().ok_or_else(is_done)?;
        let is_asked_for = opener
            .needs()?
            .iter()
            .any(|range| range.start == offset && range.end - range.start == len as u64);
        if !is_asked_for {
            return Err(Failure::usage(format!(
                "{len} bytes at {offset} are not a range that zstn_opening_needs returned"
            )));
        }
        Ok(opener.supply(offset, bytes)?)
    })
}

/// Returns the model once no bytes are missing. Weights are read as they are stored;
/// `zstn_open_path` also reads a `config.json`. `engine` may be NULL. Unless bytes were
/// missing, the opening cannot be used afterwards, even after an error, and must still
/// be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_opening_finish(
    opening: *mut zstn_opening,
    engine: *const zstn_engine,
    model: *mut *mut zstn_model,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that `model` is NULL or a writable address.
        let out = unsafe { Out::new(model) }?;
        // SAFETY: the header requires that `opening` is NULL or a live handle that only
        // this thread uses.
        let opening = unsafe { pointer::exclusive(opening, "the opening") }?;
        // SAFETY: the header requires that `engine` is NULL or a live handle.
        let engine = unsafe { engine::of(engine) };
        out.set(zstn_model::new(opening.finish(&engine)?));
        Ok(())
    })
}

/// Frees an opening. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_opening_free(opening: *mut zstn_opening) {
    // SAFETY: the header requires that `opening` is NULL or a live handle that is not
    // used again.
    unsafe { pointer::free(opening) }
}
