//! Memory of a GPU.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::result;

use super::context::{Context, cannot, freeing, is_out_of_memory};
use crate::{Error, Result};

/// Memory of a GPU. A clone is another handle to the same memory.
#[derive(Clone)]
pub struct Memory {
    context: Arc<Context>,
    /// `None` for memory of the caller.
    allocation: Option<Arc<Allocation>>,
    address: u64,
    len_bytes: u64,
}

struct Allocation {
    context: Arc<Context>,
    address: u64,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: the memory comes from `malloc_sync`, and nothing uses it after the last
        // handle to it.
        freeing(&self.context, || unsafe { result::free_sync(self.address) });
    }
}

impl Memory {
    /// Allocates memory whose allocated length is a multiple of 16. The context must be
    /// the current one.
    pub(super) fn new(context: &Arc<Context>, len_bytes: u64) -> Result<Self> {
        let allocated = len_bytes.max(1).checked_next_multiple_of(16);
        let allocated = allocated.and_then(|len| usize::try_from(len).ok());
        let Some(allocated) = allocated else {
            return Err(Error::DeviceMemory { len_bytes });
        };
        // SAFETY: the content is undefined. It is only read by kernels and by copies, for
        // which every content is valid.
        let address = unsafe { result::malloc_sync(allocated) };
        let address = address.map_err(|error| match is_out_of_memory(&error) {
            true => Error::DeviceMemory { len_bytes },
            false => cannot("allocate memory of the GPU")(error),
        })?;
        Ok(Self {
            context: context.clone(),
            allocation: Some(Arc::new(Allocation {
                context: context.clone(),
                address,
            })),
            address,
            len_bytes,
        })
    }

    /// Returns a handle to memory of the caller.
    ///
    /// # Safety
    /// The caller guarantees what [`Gpu::memory_at`](super::Gpu::memory_at) states.
    pub(super) unsafe fn of_caller(context: &Arc<Context>, address: u64, len_bytes: u64) -> Self {
        Self {
            context: context.clone(),
            allocation: None,
            address,
            len_bytes,
        }
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns the address in the memory of the GPU. It is valid while a handle exists.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Copies the bytes `range` to the host.
    ///
    /// # Errors
    /// [`Error::Usage`] if the range lies outside the memory.
    pub fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let outside = || Error::Usage("a range ends before it begins".into());
        let len_bytes = range.end.checked_sub(range.start).ok_or_else(outside)?;
        let from = self.at(range.start, len_bytes)?;
        let mut out = zstn_core::bytes::buffer(len_bytes)?;
        let _entered = self.context.enter()?;
        if !out.is_empty() {
            // SAFETY: `at` has checked that the range lies in the memory, which `self`
            // keeps alive, and `out` has its length.
            let read = unsafe { result::memcpy_dtoh_sync(&mut out, from) };
            read.map_err(cannot("copy from the GPU"))?;
        }
        Ok(out)
    }

    /// Returns the address of `len_bytes` bytes at the offset `at`.
    pub(super) fn at(&self, at: u64, len_bytes: u64) -> Result<u64> {
        let end = at.checked_add(len_bytes);
        let address = self.address.checked_add(at);
        match address.filter(|_| end.is_some_and(|end| end <= self.len_bytes)) {
            Some(address) => Ok(address),
            None => Err(Error::Usage(format!(
                "{len_bytes} bytes at offset {at} lie outside a buffer of {} bytes",
                self.len_bytes
            ))),
        }
    }

    /// Refuses memory of another GPU, whose addresses mean something else here.
    pub(super) fn check_of(&self, context: &Arc<Context>) -> Result<()> {
        match self.context.is_same(context) {
            true => Ok(()),
            false => Err(Error::Usage("the memory belongs to another GPU".into())),
        }
    }

    /// Returns whether both are handles to the same allocation.
    pub(super) fn is_kept_by(&self, other: &Self) -> bool {
        self.address == other.address && other.allocation.is_some()
    }

    /// Returns whether the caller keeps the memory.
    pub(super) fn is_of_caller(&self) -> bool {
        self.allocation.is_none()
    }
}
