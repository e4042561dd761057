//! Opens a file and reads a tensor, or rows of one, when the caller fetches the ranges.

use std::ffi::{CStr, c_void};
use std::ptr;

use zstn_capi::{
    zstn_bytes, zstn_engine, zstn_error, zstn_head_len, zstn_model, zstn_model_free,
    zstn_opening_finish, zstn_opening_free, zstn_opening_needs, zstn_opening_new,
    zstn_opening_supply, zstn_plan, zstn_plan_decode, zstn_plan_free, zstn_plan_len,
    zstn_plan_needs, zstn_plan_parts, zstn_plan_supply, zstn_plan_tensor, zstn_range, zstn_status,
};

use super::{Handle, Outcome, call, index};
use crate::part;

/// Opens a file in memory.
pub fn open(file: &[u8], engine: &Handle<zstn_engine>) -> Outcome<Handle<zstn_model>> {
    let len = file.len() as u64;
    let head = index(zstn_head_len(len));
    assert!(head <= file.len());
    let opening = Handle::new(zstn_opening_free, |out, error| {
        // SAFETY: the head of `file` has at least `head` bytes, `out` points to a
        // writable pointer, and `error` comes from `call`.
        unsafe { zstn_opening_new(len, file.as_ptr().cast(), head, out, error) }
    })?;
    loop {
        let mut needs = ranges(|ranges, count, error| {
            // SAFETY: `opening` owns a valid handle, `ranges` provides the list and its
            // capacity, and `error` comes from `call`.
            unsafe { zstn_opening_needs(opening.pointer, ranges, count, error) }
        })?;
        if needs.is_empty() {
            break;
        }
        supply(file, &needs, |offset, from, len, error| {
            // SAFETY: `opening` owns a valid handle, `from` points to `len` bytes of
            // the file, and `error` comes from `call`.
            unsafe { zstn_opening_supply(opening.pointer, offset, from, len, error) }
        })?;
        needs.sort_by_key(|range| range.offset);
        let are_apart = |pair: &[zstn_range]| pair[0].offset + pair[0].len <= pair[1].offset;
        assert!(needs.windows(2).all(are_apart), "ranges overlap");
    }
    Handle::new(zstn_model_free, |out, error| {
        // SAFETY: `opening` and `engine` own valid handles, `out` points to a writable
        // pointer, and `error` comes from `call`.
        unsafe { zstn_opening_finish(opening.pointer, engine.pointer, out, error) }
    })
}

/// Returns the bytes of a range, which must be inside the file.
pub fn fetch<'a>(file: &'a [u8], range: &zstn_range) -> &'a [u8] {
    assert_eq!(range.file, 0, "there is one file");
    part(file, range.offset..range.offset + range.len)
}

/// Supplies ranges of the file sequentially. `give` receives an offset, a pointer to
/// the bytes at that offset, and their number.
pub fn supply(
    file: &[u8],
    needs: &[zstn_range],
    give: impl Fn(u64, *const c_void, usize, *mut zstn_error) -> zstn_status,
) -> Outcome<()> {
    needs.iter().try_for_each(|range| {
        let bytes = fetch(file, range);
        call(|error| give(range.offset, bytes.as_ptr().cast(), bytes.len(), error))
    })
}

/// Requests a list of ranges: first its length, with a null list, then its entries,
/// with capacity for an extra one. The pointers that `ask` receives are valid for that
/// number of entries during the call.
pub fn ranges(
    ask: impl Fn(*mut zstn_range, *mut usize, *mut zstn_error) -> zstn_status,
) -> Outcome<Vec<zstn_range>> {
    const UNSET: u64 = u64::MAX;
    let mut count = 0;
    call(|error| ask(ptr::null_mut(), &raw mut count, error))?;
    let unset = zstn_range {
        offset: UNSET,
        len: UNSET,
        file: UNSET,
    };
    let mut ranges = vec![unset; count + 1];
    let mut stored = ranges.len();
    call(|error| ask(ranges.as_mut_ptr(), &raw mut stored, error)).expect("an answer as before");
    assert_eq!(stored, count);
    let are_set = ranges.iter().map(|range| range.file != UNSET);
    assert!(are_set.eq((0..=count).map(|number| number < count)));
    ranges.truncate(count);
    Ok(ranges)
}

/// A plan that has received all the data it needs to list the ranges to decode.
pub struct Plan<'a> {
    file: &'a [u8],
    plan: Handle<zstn_plan>,
}

impl<'a> Plan<'a> {
    /// Plans to read a range of rows of a tensor.
    pub fn new(
        file: &'a [u8],
        model: &Handle<zstn_model>,
        name: &CStr,
        (begin, end): (u64, u64),
    ) -> Outcome<Self> {
        let plan = Handle::new(zstn_plan_free, |out, error| {
            // SAFETY: `model` owns a valid handle, `name` is NUL-terminated, `out`
            // points to a writable pointer, and `error` comes from `call`.
            unsafe { zstn_plan_tensor(model.pointer, name.as_ptr(), begin, end, out, error) }
        })?;
        let needs = ranges(|ranges, count, error| {
            // SAFETY: `plan` owns a valid handle, `ranges` provides the list and its
            // capacity, and `error` comes from `call`.
            unsafe { zstn_plan_needs(plan.pointer, ranges, count, error) }
        })?;
        supply(file, &needs, |offset, from, len, error| {
            // SAFETY: `plan` owns a valid handle, `from` points to `len` bytes of the
            // file, and `error` comes from `call`.
            unsafe { zstn_plan_supply(plan.pointer, offset, from, len, error) }
        })?;
        Ok(Self { file, plan })
    }

    pub fn len_bytes(&self) -> u64 {
        // SAFETY: `self.plan` owns a valid handle.
        unsafe { zstn_plan_len(self.plan.pointer) }
    }

    /// Decodes the planned rows.
    pub fn decode(&self, engine: &Handle<zstn_engine>) -> Outcome<Vec<u8>> {
        let plan = self.plan.pointer;
        let parts = ranges(|ranges, count, error| {
            // SAFETY: `self.plan` owns a valid handle, `ranges` provides the list and
            // its capacity, and `error` comes from `call`.
            unsafe { zstn_plan_parts(plan, ranges, count, error) }
        })?;
        let parts = parts.iter().map(|range| fetch(self.file, range));
        let parts = parts.map(|part| zstn_bytes {
            data: part.as_ptr().cast(),
            len: part.len(),
        });
        let parts: Vec<zstn_bytes> = parts.collect();
        super::fill(index(self.len_bytes()), 0, |out, capacity, error| {
            let (list, count) = (parts.as_ptr(), parts.len());
            // SAFETY: `engine` and `self.plan` own valid handles, `list` points to
            // `count` spans of the file, `out` points to `capacity` writable bytes, and
            // `error` comes from `call`.
            unsafe { zstn_plan_decode(engine.pointer, plan, list, count, out, capacity, error) }
        })
    }
}
