//! An allocator that records the peak memory, to show that forged lengths do not
//! cost memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator with a counter.
#[derive(Debug)]
pub struct Counting;

#[allow(unsafe_code)]
// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Asking for too much counts, even if it is refused.
        let wanted = HELD.load(Relaxed).saturating_add(layout.size());
        MOST.fetch_max(wanted, Relaxed);
        // SAFETY: the caller's promises are passed on.
        let pointer = unsafe { System.alloc(layout) };
        if !pointer.is_null() {
            HELD.fetch_add(layout.size(), Relaxed);
        }
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Waits until no other test of this process holds the guard that it returns.
/// The count of [`peak_bytes`] is of the process, so other tests that run at the
/// same time would be included.
pub fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // A failed test leaves no state that another one uses.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work`; returns its result and the largest number of bytes allocated
/// meanwhile beyond those that were allocated before.
pub fn peak_bytes<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.load(Relaxed);
    MOST.store(before, Relaxed);
    let result = work();
    (result, MOST.load(Relaxed).saturating_sub(before))
}
