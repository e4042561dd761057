//! An allocator that records peak memory, so that tests can show that forged lengths do
//! not cause large allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// The system allocator with counters of the current and the peak number of bytes.
#[derive(Debug)]
pub struct Counting;

#[allow(unsafe_code)]
// SAFETY: `alloc` and `dealloc` pass their arguments unchanged to `System`, which
// upholds the contract of `GlobalAlloc`; the counters do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A request counts towards the peak even if the system refuses it.
        let wanted = HELD.load(Relaxed).saturating_add(layout.size());
        MOST.fetch_max(wanted, Relaxed);
        // SAFETY: the caller guarantees that `layout` has a non-zero size, as `System`
        // requires.
        let pointer = unsafe { System.alloc(layout) };
        if !pointer.is_null() {
            HELD.fetch_add(layout.size(), Relaxed);
        }
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller guarantees that `alloc` returned `pointer` for this
        // `layout`, and `alloc` obtained it from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Waits until no other test of this process holds the returned guard. [`peak_bytes`]
/// counts the allocations of the whole process, so tests that measure memory must not
/// run at the same time as others.
pub fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // The mutex protects no data, so a poisoned lock is harmless.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work` and returns its result with the peak number of bytes allocated during
/// the call beyond those already allocated before it.
pub fn peak_bytes<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.load(Relaxed);
    MOST.store(before, Relaxed);
    let result = work();
    (result, MOST.load(Relaxed).saturating_sub(before))
}
