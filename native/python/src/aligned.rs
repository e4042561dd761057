//! Memory for decoded tensors.

#![allow(unsafe_code)] // A `Vec<u8>` cannot be aligned to 64 bytes.

use std::alloc::{self, Layout};
use std::ptr::NonNull;
use std::slice;

use zstn::Result;
use zstn::zstn_core::Error;

/// The alignment that suits vector instructions and other frameworks.
#[repr(align(64))]
struct Line;

/// An owned allocation that is aligned to 64 bytes.
pub struct Aligned {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the value is the only owner of its memory, so it may move to another thread.
unsafe impl Send for Aligned {}

impl Aligned {
    /// Returns `len` zeros. The system provides memory for a large allocation only when
    /// it is written to.
    pub fn zeroed(len: u64) -> Result<Self> {
        let refusal = || Error::limit(format!("{len} bytes do not fit in memory"));
        let len = usize::try_from(len).map_err(|_| refusal())?;
        let layout = Layout::from_size_align(len, align_of::<Line>()).map_err(|_| refusal())?;
        let start = match len {
            0 => NonNull::<Line>::dangling().cast(),
            // SAFETY: the layout has a length other than 0.
            _ => NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).ok_or_else(refusal)?,
        };
        Ok(Self { start, layout })
    }

    pub fn len(&self) -> usize {
        self.layout.size()
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: `start` points to `len` initialised bytes, and `&mut self` is the
        // only borrow of them.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len()) }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        if self.len() > 0 {
            // SAFETY: the memory was allocated with this layout, and `self` is being
            // dropped.
            unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) }
        }
    }
}
