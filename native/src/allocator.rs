//! An allocator for programs that decode models. It maps large buffers in pages of 2
//! MiB instead of 4 KiB and leaves the rest to the system's allocator. A decoder
//! touches every page of such a buffer once. With pages of 4 KiB, the page faults take
//! a fifth of the time of unpacking, and half the time of loading a model into Python.

#![allow(unsafe_code)] // `GlobalAlloc` and the system calls are unsafe.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;

use libc::c_void;

/// An allocator that maps each large buffer separately, in huge pages where the system
/// has some, and returns its memory when it is freed. Smaller buffers come from the
/// system's allocator.
///
/// ```no_run
/// #[global_allocator]
/// static ALLOCATOR: zstn::allocator::HugePageAllocator = zstn::allocator::HugePageAllocator;
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct HugePageAllocator;

const HUGE_PAGE_BYTES: usize = 2 << 20;
/// A multiple of every page size that Linux supports.
const PAGE_BYTES: usize = 64 << 10;
const MIN_PAGE_BYTES: usize = 4 << 10;
/// The minimum length of a buffer that gets its own mapping. A shorter buffer does not
/// fill a huge page.
const MIN_BYTES: usize = HUGE_PAGE_BYTES;

/// Makes the system's allocator retain the freed memory of smaller buffers for the next
/// allocations of the whole process, if it supports this. Packing allocates and frees
/// thousands of blocks, and mapping their pages again each time would take a tenth of
/// the packing time.
#[cfg(target_env = "gnu")]
pub fn retain_freed() {
    /// The amount of freed memory that an arena of the allocator may retain; usually
    /// each thread has an arena.
    const RETAINED_BYTES: i32 = 32 << 20;
    let min_bytes = i32::try_from(MIN_BYTES).unwrap_or(i32::MAX);
    // SAFETY: `mallopt` takes two integers and accesses no memory of this program. A
    // value that it rejects changes nothing.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, min_bytes);
        libc::mallopt(libc::M_TRIM_THRESHOLD, RETAINED_BYTES);
    }
}

/// Returns whether a buffer of this layout is a mapping of its own. The answer depends
/// on the layout alone, so `alloc` and `dealloc` agree about a buffer.
fn is_mapped(layout: Layout) -> bool {
    layout.size() >= MIN_BYTES && layout.align() <= MIN_PAGE_BYTES
}

/// Maps zeroed memory that is aligned to a huge page; returns null if the system has no
/// memory.
fn map(len_bytes: usize) -> *mut u8 {
    // Some kernels align such mappings by themselves and others do not. This function
    // therefore maps a longer range, and unmaps the pages before and after the aligned
    // buffer.
    let Some(len_bytes) = len_bytes.checked_next_multiple_of(PAGE_BYTES) else {
        return ptr::null_mut();
    };
    let Some(with_slack) = len_bytes.checked_add(HUGE_PAGE_BYTES) else {
        return ptr::null_mut();
    };
    // SAFETY: this creates a new anonymous mapping at an address that the system
    // chooses, so it replaces no existing memory.
    let mapping = unsafe {
        libc::mmap(
            ptr::null_mut(),
            with_slack,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if mapping == libc::MAP_FAILED {
        return ptr::null_mut();
    }
    let start = mapping.addr().next_multiple_of(HUGE_PAGE_BYTES);
    let end = start + len_bytes;
    let buffer = mapping.with_addr(start);
    unmap(mapping, start - mapping.addr());
    unmap(mapping.with_addr(end), mapping.addr() + with_slack - end);
    advise(buffer, len_bytes);
    buffer.cast()
}

/// Returns pages to the system. The caller must not use them afterwards.
fn unmap(start: *mut c_void, len_bytes: usize) {
    if len_bytes == 0 {
        return;
    }
    // SAFETY: the callers pass whole pages of a mapping that `map` or `remap` made and
    // that no pointer uses afterwards. `munmap` fails if the kernel cannot record
    // another mapping; the addresses then stay reserved, but `madvise` returns the
    // memory.
    unsafe {
        if libc::munmap(start, len_bytes) != 0 {
            libc::madvise(start, len_bytes, libc::MADV_DONTNEED);
        }
    }
}

/// Requests huge pages for a whole mapping: advice for part of a mapping would split it
/// in two. If the kernel ignores the advice, nothing else changes.
fn advise(start: *mut c_void, len_bytes: usize) {
    // SAFETY: the range is a mapping made by `map` or `remap`, and `MADV_HUGEPAGE` does
    // not change its contents.
    unsafe { libc::madvise(start, len_bytes, libc::MADV_HUGEPAGE) };
}

// SAFETY: the layout alone determines whether a buffer is mapped here or comes from the
// system's allocator, so each buffer is freed and resized by the allocator that made
// it. A mapping is zeroed, aligned to a page and at least as long as the layout.
unsafe impl GlobalAlloc for HugePageAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_mapped(layout) {
            return map(layout.size());
        }
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_mapped(layout) {
            return map(layout.size());
        }
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, buffer: *mut u8, layout: Layout) {
        if is_mapped(layout) {
            return unmap(buffer.cast(), layout.size().next_multiple_of(PAGE_BYTES));
        }
        unsafe { System.dealloc(buffer, layout) }
    }

    unsafe fn realloc(&self, buffer: *mut u8, layout: Layout, len_bytes: usize) -> *mut u8 {
        // SAFETY: the caller of `realloc` guarantees that the length, rounded up to the
        // alignment, does not overflow `isize`. The alignment is taken from a valid
        // layout.
        let new = unsafe { Layout::from_size_align_unchecked(len_bytes, layout.align()) };
        if !is_mapped(layout) && !is_mapped(new) {
            return unsafe { System.realloc(buffer, layout, len_bytes) };
        }
        if is_mapped(layout) && is_mapped(new) {
            let moved = unsafe { remap(buffer, layout.size(), len_bytes) };
            if !moved.is_null() {
                return moved;
            }
        }
        let moved = unsafe { self.alloc(new) };
        if !moved.is_null() {
            // SAFETY: `buffer` and `moved` are separate live allocations, and both have
            // at least the shorter of the two lengths. `buffer` was allocated with
            // `layout`.
            unsafe {
                ptr::copy_nonoverlapping(buffer, moved, layout.size().min(len_bytes));
                self.dealloc(buffer, layout);
            }
        }
        moved
    }
}

/// Resizes a mapping and moves it if necessary. Returns null if that fails; the mapping
/// is then unchanged.
///
/// # Safety
/// `buffer` is a mapping of `old_bytes` bytes made by this module.
unsafe fn remap(buffer: *mut u8, old_bytes: usize, new_bytes: usize) -> *mut u8 {
    let old_bytes = old_bytes.next_multiple_of(PAGE_BYTES);
    let pages_bytes = new_bytes.next_multiple_of(PAGE_BYTES);
    // SAFETY: the caller guarantees that `buffer` is a mapping of `old_bytes` bytes,
    // which `map` and `remap` round up to `PAGE_BYTES` as above.
    let moved =
        unsafe { libc::mremap(buffer.cast(), old_bytes, pages_bytes, libc::MREMAP_MAYMOVE) };
    if moved == libc::MAP_FAILED {
        return ptr::null_mut();
    }
    advise(moved, pages_bytes);
    moved.cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn pattern(position: usize) -> u8 {
        u8::try_from(position % 251).unwrap()
    }

    /// Allocates `from` bytes, resizes them to `to`, and checks that the contents
    /// survive.
    fn check(from: usize, to: usize, align: usize) {
        let layout = Layout::from_size_align(from, align).unwrap();
        let allocator = HugePageAllocator;
        // SAFETY: no length is 0, each call gets the layout of the live allocation, and
        // the slices are as long as the allocation and are not used after it is
        // resized.
        unsafe {
            let buffer = allocator.alloc_zeroed(layout);
            assert!(!buffer.is_null() && buffer.addr().is_multiple_of(align));
            let bytes = std::slice::from_raw_parts_mut(buffer, from);
            assert!(bytes.iter().all(|&byte| byte == 0));
            for (i, byte) in bytes.iter_mut().enumerate().step_by(999) {
                *byte = pattern(i);
            }
            let moved = allocator.realloc(buffer, layout, to);
            assert!(!moved.is_null() && moved.addr().is_multiple_of(align));
            let bytes = std::slice::from_raw_parts_mut(moved, to);
            for (i, &byte) in bytes[..from.min(to)].iter().enumerate().step_by(999) {
                assert_eq!(byte, pattern(i), "{from} to {to}: byte {i}");
            }
            bytes.fill(7);
            allocator.dealloc(moved, Layout::from_size_align(to, align).unwrap());
        }
    }

    #[test]
    fn buffers_of_all_lengths_keep_what_they_hold() {
        let lengths = [
            1,
            MIB,
            2 * MIB - 1,
            2 * MIB,
            2 * MIB + 1,
            5 * MIB + 777,
            9 * MIB,
        ];
        for from in lengths {
            for to in lengths {
                for align in [1, 64, 4096, 8192] {
                    check(from, to, align);
                }
            }
        }
    }

    #[test]
    fn mappings_end_where_they_should_wherever_they_begin() {
        let layout = Layout::from_size_align(2 * MIB + 1, 64).unwrap();
        let page = MIN_PAGE_BYTES;
        for shift in 0..2 * MIB / page {
            // SAFETY: the mapping `before`, which shifts the addresses of the next
            // mappings, is used by nothing else. The allocation is used with its own
            // layout, and `behind` is within its rounded length.
            unsafe {
                let protection = libc::PROT_READ;
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let len = page * (shift % 16 + 1);
                let before = libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0);
                let buffer = HugePageAllocator.alloc_zeroed(layout);
                let behind = buffer.add(2 * MIB + PAGE_BYTES - 1);
                assert_eq!(*behind, 0);
                let moved = HugePageAllocator.realloc(buffer, layout, 3 * MIB);
                assert!(!moved.is_null());
                HugePageAllocator.dealloc(moved, Layout::from_size_align(3 * MIB, 64).unwrap());
                libc::munmap(before, len);
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_null() {
        let layout = Layout::from_size_align(isize::MAX as usize, 1).unwrap();
        // SAFETY: the layout is valid and its size is not 0.
        assert!(unsafe { HugePageAllocator.alloc(layout) }.is_null());
    }
}
