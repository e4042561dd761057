//! Opening a file without reading it: the library says which ranges it needs,
//! the caller fetches them.

use std::ffi::c_void;
use std::ops::Range;

use zstn::Engine;
use zstn::core::catalog::FileOpener;
use zstn::core::model::{Model, ModelBuilder};

use crate::engine::{self, zstn_engine};
use crate::handle::{self, Out};
use crate::model::zstn_model;
use crate::pointer;
use crate::status::{self, Failure, zstn_error, zstn_status};

/// A file that is being opened. One thread at a time may use it.
pub struct zstn_opening {
    /// `None` when it is done.
    opener: Option<FileOpener>,
}

/// Bytes of a file to fetch.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zstn_range {
    /// The first byte, from the start of the file.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
    /// Number of the file, for a model in several; 0 for the first.
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

/// Stores as many of `found` as the caller has room for, and their number.
///
/// # Safety
/// `count` is NULL or the address of a number, and `ranges` has room for so
/// many.
pub unsafe fn store(
    found: impl ExactSizeIterator<Item = zstn_range>,
    ranges: *mut zstn_range,
    count: *mut usize,
) -> Result<(), Failure> {
    // SAFETY: see above.
    let count = unsafe { pointer::exclusive(count, "the number of ranges") }?;
    let capacity = if ranges.is_null() { 0 } else { *count };
    // SAFETY: see above.
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
            let detail = "bytes of the file are still missing: ask zstn_opening_needs for them";
            return Err(Failure::usage(detail));
        }
        let catalog = self.opener.take().ok_or_else(is_done)?.finish(engine)?;
        // Without `config.json`, there is nothing to ask for.
        let builder = ModelBuilder::new(vec![catalog], None, None)?;
        Ok(builder.finish(engine)?)
    }
}

fn is_done() -> Failure {
    Failure::usage("the opening is done and cannot be used any more")
}

/// Returns the number of bytes from the start of a file of `file_len` bytes that
/// `zstn_opening_new` wants.
#[unsafe(no_mangle)]
pub extern "C" fn zstn_head_len(file_len: u64) -> u64 {
    FileOpener::head_len_bytes(file_len)
}

/// Begins to open a file of `file_len` bytes, of any kind. `head` are its first
/// bytes, at least `zstn_head_len(file_len)` of them; they are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_opening_new(
    file_len: u64,
    head: *const c_void,
    head_len: usize,
    opening: *mut *mut zstn_opening,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: an out parameter, as the header says.
        let out = unsafe { Out::new(opening) }?;
        // SAFETY: bytes of the caller.
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

/// Asks which ranges are missing. `*count` is the number of ranges that `ranges`
/// has room for, and becomes the number of those there are; the first of them
/// are stored. 0 means that `zstn_opening_finish` can be called. `ranges` may be
/// NULL to ask for their number. They do not overlap, and may be fetched at the
/// same time; after that, ask again: there are few rounds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_opening_needs(
    opening: *const zstn_opening,
    ranges: *mut zstn_range,
    count: *mut usize,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: NULL or a handle, as the header says.
        let opening = unsafe { pointer::reference(opening, "the opening") }?;
        let needs = opening.opener()?.needs()?;
        let found = needs.iter().map(|range| zstn_range::new(0, range));
        // SAFETY: a list of the caller and its length.
        unsafe { store(found, ranges, count) }
    })
}

/// Adds the bytes of a range that `zstn_opening_needs` has named, all of them;
/// they are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_opening_supply(
    opening: *mut zstn_opening,
    offset: u64,
    bytes: *const c_void,
    len: usize,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: NULL or a handle, which no other thread uses.
        let opening = unsafe { pointer::exclusive(opening, "the opening") }?;
        // SAFETY: bytes of the caller.
        let bytes = unsafe { pointer::bytes(bytes, len, "the list of bytes") }?;
        let opener = opening.opener.as_mut().ok_or_else(is_done)?;
        let is_asked_for = opener
            .needs()?
            .iter()
            .any(|range| range.start == offset && range.end - range.start == len as u64);
        if !is_asked_for {
            return Err(Failure::usage(format!(
                "{len} bytes at {offset} are not a range that zstn_opening_needs asks for"
            )));
        }
        Ok(opener.supply(offset, bytes)?)
    })
}

/// Returns the model, when no bytes are missing. Weights are as they are stored;
/// `zstn_open_path` also reads a `config.json`. `engine` may be NULL. The opening
/// is done then, also after an error other than missing bytes, and has to be
/// freed all the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_opening_finish(
    opening: *mut zstn_opening,
    engine: *const zstn_engine,
    model: *mut *mut zstn_model,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: an out parameter, as the header says.
        let out = unsafe { Out::new(model) }?;
        // SAFETY: NULL or a handle, which no other thread uses.
        let opening = unsafe { pointer::exclusive(opening, "the opening") }?;
        // SAFETY: NULL or a handle.
        let engine = unsafe { engine::of(engine) };
        out.set(zstn_model::new(opening.finish(&engine)?));
        Ok(())
    })
}

/// Frees an opening. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_opening_free(opening: *mut zstn_opening) {
    // SAFETY: a handle that is not used any more, or NULL.
    unsafe { handle::free(opening) }
}
