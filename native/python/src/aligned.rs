//! Memory that tensors are decoded into.

#![allow(unsafe_code)] // A `Vec` of bytes is not aligned.

use std::alloc::{self, Layout};
use std::ptr::NonNull;
use std::slice;

use zstn::Result;
use zstn::core::Error;

/// The alignment that vector instructions and other frameworks like best.
#[repr(align(64))]
struct Line;

/// Memory of its own that begins at a multiple of 64 bytes.
pub struct Aligned {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: nobody else has a pointer to the memory.
unsafe impl Send for Aligned {}

impl Aligned {
    /// Returns `len` zeros. Large ones take no memory before they are written.
    pub fn zeroed(len: u64) -> Result<Self> {
        let refusal = || Error::limit(format!("{len} bytes do not fit in memory"));
        let len = usize::try_from(len).map_err(|_| refusal())?;
        let layout = Layout::from_size_align(len, align_of::<Line>()).map_err(|_| refusal())?;
        let start = match len {
            0 => NonNull::<Line>::dangling().cast(),
            // SAFETY: the length is not 0.
            _ => NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).ok_or_else(refusal)?,
        };
        Ok(Self { start, layout })
    }

    pub fn len(&self) -> usize {
        self.layout.size()
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: that many bytes were allocated, zeroed, and are borrowed
        // from nowhere else.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len()) }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        if self.len() > 0 {
            // SAFETY: allocated with this layout, and not used any more.
            unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) }
        }
    }
}
