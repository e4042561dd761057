//! Reading a tensor, or rows of one, without any I/O of the library: it names the
//! ranges that it needs, and the caller fetches them.

use std::ffi::{c_char, c_void};
use std::ops::Range;
use std::sync::Arc;

use zstn::Engine;
use zstn::zstn_core::bytes::index;
use zstn::zstn_core::model::{Rows, StoredPart, TensorInfo};

use crate::engine::{self, zstn_engine};
use crate::model::{Opened, zstn_model};
use crate::opening::{store, zstn_range};
use crate::pointer::{self, Out};
use crate::status::{self, Failure, ZSTN_ERROR_NEEDS_BASE, ZSTN_OK, zstn_error, zstn_status};

/// Passed as `row_end`: all rows up to the last. A plan for rows 0 to `ZSTN_ALL_ROWS`
/// covers the whole tensor, whatever its shape.
pub const ZSTN_ALL_ROWS: u64 = 0xFFFF_FFFF_FFFF_FFFF;

/// Bytes in the caller's memory.
#[repr(C)]
pub struct zstn_bytes {
    /// Pointer to the first byte; may be NULL if `len` is 0.
    pub data: *const c_void,
    /// Number of bytes.
    pub len: usize,
}

/// The ranges to fetch for a tensor or some of its rows, and the steps to decode them.
/// Any number of threads may use a plan at the same time, but only one may call
/// `zstn_plan_supply`, and no other thread may use the plan meanwhile. A plan remains
/// usable after its model has been freed.
pub struct zstn_plan {
    opened: Arc<Opened>,
    number: usize,
    /// The block table that has to be fetched first: the number of its file, its range,
    /// and the rows to read with it.
    table: Option<(usize, Range<u64>, Range<u64>)>,
    /// `None` if the plan covers the whole tensor.
    rows: Option<Rows>,
}

impl zstn_plan {
    fn new(opened: &Arc<Opened>, name: &str, rows: Range<u64>) -> Result<Self, Failure> {
        let model = opened.model();
        let number = model.find(name)?;
        let tensor = model.tensor(number)?;
        if tensor.base.is_some() {
            return Err(Failure {
                status: ZSTN_ERROR_NEEDS_BASE,
                is_retryable: false,
                message: format!(
                    "tensor `{name}`: it is stored as a delta; read it by a zstn_reader that was \
                     opened with the base"
                ),
            });
        }
        let mut plan = Self {
            opened: Arc::clone(opened),
            number,
            table: None,
            rows: None,
        };
        if rows != (0..ZSTN_ALL_ROWS) {
            let count = tensor.shape.first().copied().unwrap_or(0);
            let end = if rows.end == ZSTN_ALL_ROWS {
                count
            } else {
                rows.end
            };
            let rows = rows.start..end;
            // This call checks that the rows exist, even if the block table is still
            // missing.
            plan.rows = Some(model.rows(number, rows.clone(), None)?);
            plan.table = model
                .block_table(number, &[])
                .map(|(file, table)| (file, table, rows));
        }
        Ok(plan)
    }

    fn tensor(&self) -> Result<&TensorInfo, Failure> {
        Ok(self.opened.model().tensor(self.number)?)
    }

    /// Returns the rows, if they can be decoded without decoding the whole tensor.
    fn cut(&self) -> Option<&Rows> {
        self.rows.as_ref().filter(|rows| !rows.is_whole())
    }

    fn len_bytes(&self) -> Result<u64, Failure> {
        match &self.rows {
            Some(rows) => Ok(rows.span().end - rows.span().start),
            None => Ok(self.tensor()?.len_bytes()),
        }
    }

    fn parts(&self) -> Result<Vec<zstn_range>, Failure> {
        if self.table.is_some() {
            let detail = "the plan needs a table first: supply the ranges that zstn_plan_needs \
                          returns";
            return Err(Failure::usage(detail));
        }
        let of_part = |part: &StoredPart| zstn_range::new(part.file, &part.stored);
        Ok(match self.cut() {
            Some(rows) => {
                let ranges = rows.ranges();
                ranges
                    .map(|(file, range)| zstn_range::new(file, &range))
                    .collect()
            }
            None => self.tensor()?.parts.iter().map(of_part).collect(),
        })
    }

    fn supply(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        let asked = self.table.as_ref().filter(|(_, table, _)| {
            (table.start, table.end - table.start) == (offset, bytes.len() as u64)
        });
        let Some((_, _, rows)) = asked else {
            return Err(Failure::usage(format!(
                "{} bytes at {offset} are not a range that zstn_plan_needs returned",
                bytes.len()
            )));
        };
        let model = self.opened.model();
        self.rows = Some(model.rows(self.number, rows.clone(), Some(bytes))?);
        // Cleared only on success, so that refused bytes can be fetched again.
        self.table = None;
        Ok(())
    }

    fn decode(&self, engine: &Engine, fetched: &[&[u8]], out: &mut [u8]) -> Result<(), Failure> {
        let lens = self.parts()?.into_iter().map(|range| range.len);
        if !lens.eq(fetched.iter().map(|bytes| bytes.len() as u64)) {
            let detail = "these are not the bytes of the ranges that zstn_plan_parts names";
            return Err(Failure::usage(detail));
        }
        let model = self.opened.model();
        let Some(rows) = &self.rows else {
            return Ok(model.decode_into(engine, self.number, fetched, None, out)?);
        };
        if !rows.is_whole() {
            out.copy_from_slice(&rows.decode(engine, fetched, None)?);
            return Ok(());
        }
        let tensor = model.decode(engine, self.number, fetched, None)?;
        let span = index(rows.span().start)..index(rows.span().end);
        let part = tensor.get(span);
        out.copy_from_slice(part.ok_or_else(|| Failure::usage("the tensor is too short"))?);
        Ok(())
    }
}

/// Plans to read the rows from `row_begin` up to, but not including, `row_end`. Rows
/// are slices of the outermost dimension; 0 and `ZSTN_ALL_ROWS` select the whole
/// tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_plan_tensor(
    model: *const zstn_model,
    name: *const c_char,
    row_begin: u64,
    row_end: u64,
    plan: *mut *mut zstn_plan,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that `plan` is NULL or a writable address.
        let out = unsafe { Out::new(plan) }?;
        // SAFETY: the header requires that `model` is NULL or a live handle.
        let model = unsafe { pointer::reference(model, "the model") }?;
        // SAFETY: the header requires that `name` is NULL or a NUL-terminated string.
        let name = unsafe { pointer::text(name, "the name") }?;
        out.set(zstn_plan::new(&model.opened, name, row_begin..row_end)?);
        Ok(())
    })
}

/// Lists the range that the plan itself still needs: some rows need a block table that
/// was not read with the index. It takes the same arguments as `zstn_opening_needs`.
/// The plan is ready when the number of ranges is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_plan_needs(
    plan: *const zstn_plan,
    ranges: *mut zstn_range,
    count: *mut usize,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that `plan` is NULL or a live handle.
        let plan = unsafe { pointer::reference(plan, "the plan") }?;
        let table = plan
            .table
            .iter()
            .map(|(file, range, _)| zstn_range::new(*file, range));
        // SAFETY: the header requires that `count` is NULL or the capacity of `ranges`.
        unsafe { store(table.collect::<Vec<_>>().into_iter(), ranges, count) }
    })
}

/// Supplies the bytes of a range that `zstn_plan_needs` has listed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_plan_supply(
    plan: *mut zstn_plan,
    offset: u64,
    bytes: *const c_void,
    len: usize,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that `plan` is NULL or a live handle that only this
        // thread uses.
        let plan = unsafe { pointer::exclusive(plan, "the plan") }?;
        // SAFETY: the header requires that `bytes` is NULL or points to that many bytes.
        let bytes = unsafe { pointer::bytes(bytes, len, "the list of bytes") }?;
        plan.supply(offset, bytes)
    })
}

/// Lists the ranges to pass to `zstn_plan_decode`, in this order. It takes the same
/// arguments as `zstn_opening_needs`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_plan_parts(
    plan: *const zstn_plan,
    ranges: *mut zstn_range,
    count: *mut usize,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that `plan` is NULL or a live handle.
        let plan = unsafe { pointer::reference(plan, "the plan") }?;
        // SAFETY: the header requires that `count` is NULL or the capacity of `ranges`.
        unsafe { store(plan.parts()?.into_iter(), ranges, count) }
    })
}

/// Returns the length in bytes of the decoded tensor or rows; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_plan_len(plan: *const zstn_plan) -> u64 {
    let mut len = 0;
    let status = status::run(std::ptr::null_mut(), || {
        // SAFETY: the header requires that `plan` is NULL or a live handle.
        len = unsafe { pointer::reference(plan, "the plan") }?.len_bytes()?;
        Ok(())
    });
    if status == ZSTN_OK { len } else { 0 }
}

/// Decodes the tensor or rows into `out`, whose capacity in bytes must be at least
/// `zstn_plan_len`. `parts` are the bytes of the ranges of `zstn_plan_parts`, in the
/// same order. Bytes that the file has checksums for are verified. `engine` may be
/// NULL. After an error, the content of `out` is undefined.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_plan_decode(
    engine: *const zstn_engine,
    plan: *const zstn_plan,
    parts: *const zstn_bytes,
    part_count: usize,
    out: *mut c_void,
    capacity: usize,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that `plan` is NULL or a live handle.
        let plan = unsafe { pointer::reference(plan, "the plan") }?;
        // SAFETY: the header requires that `parts` is NULL or a list of that length.
        let parts = unsafe { pointer::list(parts, part_count, "the list of parts") }?;
        let fetched = parts.iter().map(|part| {
            // SAFETY: the header requires that `part.data` is NULL or points to that many
            // bytes.
            unsafe { pointer::bytes(part.data, part.len, "a part") }
        });
        let fetched: Vec<&[u8]> = fetched.collect::<Result<_, _>>()?;
        // SAFETY: the header requires that `out` is NULL or a buffer of that capacity.
        let out = unsafe { pointer::buffer(out, capacity, plan.len_bytes()?) }?;
        // SAFETY: the header requires that `engine` is NULL or a live handle.
        let engine = unsafe { engine::of(engine) };
        plan.decode(&engine, &fetched, out)
    })
}

/// Frees a plan. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_plan_free(plan: *mut zstn_plan) {
    // SAFETY: the header requires that `plan` is NULL or a live handle that is not used
    // again.
    unsafe { pointer::free(plan) }
}
