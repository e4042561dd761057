//! The allocator of the command line: that of the system, told what it will be
//! used for. Large buffers, of which every page is touched once, are asked for
//! in pages of 2 MiB instead of 4 KiB: a fault for each small one was a fifth of
//! the time of unpacking. Blocks come and go by the thousand: their pages are
//! kept for the next ones, which was a tenth of the time of packing.

#![allow(unsafe_code)] // An allocator cannot be written without, nor the call.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, with advice for large buffers.
pub struct Advised;

/// Has the allocator keep what is freed, where it can be told to.
#[cfg(target_env = "gnu")]
pub fn keep_freed() {
    /// May wait for its next use, for each thread.
    const KEPT_BYTES: i32 = 32 << 20;
    // Larger buffers are given back at once: they are taken with advice.
    let least_bytes = i32::try_from(LEAST_BYTES).unwrap_or(i32::MAX);
    // SAFETY: numbers for the allocator itself; one it refuses changes nothing.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, least_bytes);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
    }
}

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
unsafe impl GlobalAlloc for Advised {
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
