//! The allocator of the command line: that of the system, but large buffers
//! are asked for in pages of 2 MiB instead of 4 KiB. A checkpoint touches every
//! page of some buffers once; a fault for each small one was a fifth of the
//! time of unpacking.

#![allow(unsafe_code)] // An allocator cannot be written without, nor the call.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, with advice.
pub struct HugePages;

const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Below, a buffer has hardly one whole page.
const LEAST_BYTES: usize = 2 * HUGE_PAGE_BYTES;

/// Asks for huge pages inside a buffer. Advice that is not taken costs
/// nothing.
fn advise(buffer: *mut u8, len_bytes: usize) {
    if buffer.is_null() || len_bytes < LEAST_BYTES {
        return;
    }
    let start = buffer.addr().next_multiple_of(HUGE_PAGE_BYTES);
    let end = (buffer.addr() + len_bytes) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    // SAFETY: whole pages of a buffer that has just been allocated; the advice
    // does not change what they hold.
    unsafe {
        libc::madvise(
            buffer.with_addr(start).cast(),
            end - start,
            libc::MADV_HUGEPAGE,
        );
    }
}

// SAFETY: every call is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let buffer = unsafe { System.alloc(layout) };
        advise(buffer, layout.size());
        buffer
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let buffer = unsafe { System.alloc_zeroed(layout) };
        advise(buffer, layout.size());
        buffer
    }

    unsafe fn dealloc(&self, buffer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(buffer, layout) }
    }

    unsafe fn realloc(&self, buffer: *mut u8, layout: Layout, len_bytes: usize) -> *mut u8 {
        let buffer = unsafe { System.realloc(buffer, layout, len_bytes) };
        advise(buffer, len_bytes);
        buffer
    }
}
