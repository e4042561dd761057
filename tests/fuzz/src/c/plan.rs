//! Reading a tensor, or rows of one, whose ranges the caller fetches.

use std::ffi::CStr;

use zstn_capi::{
    zstn_bytes, zstn_engine, zstn_model, zstn_plan, zstn_plan_decode, zstn_plan_free,
    zstn_plan_len, zstn_plan_needs, zstn_plan_parts, zstn_plan_supply, zstn_plan_tensor,
};

use super::opening::{fetch, ranges, supply};
use super::{Handle, Outcome, index, room};

/// A plan that has all it needs to say what it decodes.
pub struct Plan<'a> {
    file: &'a [u8],
    plan: Handle<zstn_plan>,
}

impl<'a> Plan<'a> {
    /// Plans to read rows of a tensor.
    pub fn new(
        file: &'a [u8],
        model: &Handle<zstn_model>,
        name: &CStr,
        (begin, end): (u64, u64),
    ) -> Outcome<Self> {
        let plan = Handle::new(zstn_plan_free, |out, error| {
            // SAFETY: a handle, a text, the address of a pointer, memory for an error.
            unsafe { zstn_plan_tensor(model.pointer, name.as_ptr(), begin, end, out, error) }
        })?;
        let needs = ranges(|ranges, count, error| {
            // SAFETY: a handle, a list and its length, memory for an error.
            unsafe { zstn_plan_needs(plan.pointer, ranges, count, error) }
        })?;
        supply(file, &needs, |offset, from, len, error| {
            // SAFETY: a handle, bytes of the file, memory for an error.
            unsafe { zstn_plan_supply(plan.pointer, offset, from, len, error) }
        })?;
        Ok(Self { file, plan })
    }

    pub fn len_bytes(&self) -> u64 {
        // SAFETY: a handle.
        unsafe { zstn_plan_len(self.plan.pointer) }
    }

    /// Decodes what was planned.
    pub fn decode(&self, engine: &Handle<zstn_engine>) -> Outcome<Vec<u8>> {
        let plan = self.plan.pointer;
        let parts = ranges(|ranges, count, error| {
            // SAFETY: a handle, a list and its length, memory for an error.
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
            // SAFETY: two handles, a list of bytes of the file and its length, a
            // buffer and its length, memory for an error.
            unsafe { zstn_plan_decode(engine.pointer, plan, list, count, out, capacity, error) }
        })
    }
}
