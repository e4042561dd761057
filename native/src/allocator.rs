//! The allocator of the command line: that of the system, with advice on how its
//! memory will be used. Large buffers, of which every page is touched once, are asked for
//! in pages of 2 MiB instead of 4 KiB: a fault for each small one was a fifth of
//! the time of unpacking. Blocks come and go by the thousand: their pages are
//! kept for the next ones, which was a tenth of the time of packing.

#![allow(unsafe_code)] // An allocator cannot be written without, nor the call.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, with advice for large buffers.
pub struct HugePageAllocator;

/// Makes the allocator retain freed memory for the next allocation, where it
/// can be set to.
#[cfg(target_env = "gnu")]
pub fn retain_freed() {
    /// Freed memory that each thread may retain.
    const RETAINED_BYTES: i32 = 32 << 20;
    // Larger buffers are mapped by themselves, since they get advice.
    let min_bytes = i32::try_from(MIN_BYTES).unwrap_or(i32::MAX);
    // SAFETY: numbers for the allocator itself; one it refuses changes nothing.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, min_bytes);
        libc::mallopt(libc::M_TRIM_THRESHOLD, RETAINED_BYTES);
    }
}

const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Length of a buffer from which advice is given: shorter ones hardly contain a
/// whole huge page.
const MIN_BYTES: usize = 2 * HUGE_PAGE_BYTES;

/// Asks for huge pages inside a buffer. Advice that is not taken costs
/// nothing.
fn advise(buffer: *mut u8, len_bytes: usize) {
    if buffer.is_null() || len_bytes < MIN_BYTES {
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
unsafe impl GlobalAlloc for HugePageAllocator {
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
