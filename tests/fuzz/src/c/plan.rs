//! Reads a tensor, or rows of one, whose ranges the caller fetches.

use std::ffi::CStr;

use zstn_capi::{
    zstn_bytes, zstn_engine, zstn_model, zstn_plan, zstn_plan_decode, zstn_plan_free,
    zstn_plan_len, zstn_plan_needs, zstn_plan_parts, zstn_plan_supply, zstn_plan_tensor,
};

use super::opening::{fetch, ranges, supply};
use super::{Handle, Outcome, index, room};

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
        room::fill(index(self.len_bytes()), 0, |out, capacity, error| {
            let (list, count) = (parts.as_ptr(), parts.len());
            // SAFETY: `engine` and `self.plan` own valid handles, `list` points to
            // `count` spans of the file, `out` points to `capacity` writable bytes, and
            // `error` comes from `call`.
            unsafe { zstn_plan_decode(engine.pointer, plan, list, count, out, capacity, error) }
        })
    }
}
