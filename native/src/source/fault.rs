//! Surviving a mapped file that is cut short: touching a page past its new
//! end raises `SIGBUS`, which would end the process without a word.
//!
//! With the guard in place the pages that are gone read as zeros, the work
//! goes on, and [`Map::check_unchanged`](super::Map::check_unchanged) refuses
//! the result. Nothing else is safe in a signal handler: it can neither
//! unwind nor take a lock.
#![allow(unsafe_code)]

#[cfg(unix)]
pub(super) use unix::Guarded;
#[cfg(unix)]
pub use unix::survive_truncation;

/// Elsewhere a mapped file cannot be cut short.
#[cfg(not(unix))]
pub fn survive_truncation() {}

/// Elsewhere there is nothing to guard.
#[cfg(not(unix))]
#[derive(Debug)]
pub(super) struct Guarded;

#[cfg(not(unix))]
impl Guarded {
    pub(super) fn new(_: &[u8]) -> Self {
        Self
    }
}

#[cfg(unix)]
mod unix {
    use std::mem;
    use std::ptr;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    /// Maps that can be guarded at a time. A checkpoint has a few hundred
    /// shards at most; maps beyond that are used without the guard.
    const MAX_GUARDED: usize = 1024;

    /// Address ranges of live maps. A handler may run at any moment on any
    /// thread, so a slot is two atomics; a length of 0 is a free slot.
    static SLOTS: [Slot; MAX_GUARDED] = [const { Slot::free() }; MAX_GUARDED];

    struct Slot {
        start: AtomicUsize,
        len_bytes: AtomicUsize,
    }

    impl Slot {
        const fn free() -> Self {
            Self {
                start: AtomicUsize::new(0),
                len_bytes: AtomicUsize::new(0),
            }
        }

        /// The length of a slot that is being written.
        const TAKEN: usize = usize::MAX;

        /// Returns the end of the map that holds `address`.
        fn end_of(&self, address: usize) -> Option<usize> {
            let len_bytes = self.len_bytes.load(SeqCst);
            let start = self.start.load(SeqCst);
            let is_range = len_bytes != 0 && len_bytes != Self::TAKEN;
            let is_inside = is_range && address >= start && address - start < len_bytes;
            is_inside.then(|| start + len_bytes)
        }
    }

    /// The registration of a map, ended by dropping it.
    #[derive(Debug)]
    pub(in super::super) struct Guarded(Option<usize>);

    impl Guarded {
        pub(in super::super) fn new(map: &[u8]) -> Self {
            if map.is_empty() {
                return Self(None);
            }
            let free = SLOTS.iter().position(|slot| {
                let taken = slot
                    .len_bytes
                    .compare_exchange(0, Slot::TAKEN, SeqCst, SeqCst);
                taken.is_ok()
            });
            if let Some(number) = free {
                SLOTS[number].start.store(map.as_ptr() as usize, SeqCst);
                SLOTS[number].len_bytes.store(map.len(), SeqCst);
            }
            Self(free)
        }
    }

    impl Drop for Guarded {
        fn drop(&mut self) {
            if let Some(number) = self.0 {
                SLOTS[number].len_bytes.store(0, SeqCst);
            }
        }
    }

    static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

    /// Installs the guard for this process, once; meant for programs, since
    /// signal handlers belong to whoever owns the process. A `SIGBUS` that has
    /// nothing to do with a [`Map`](super::super::Map) goes to the handler
    /// that was there before.
    pub fn survive_truncation() {
        PREVIOUS.get_or_init(|| {
            // SAFETY: both structures are plain data for which all zeros is a
            // valid value; the handler only makes calls that POSIX allows in
            // handlers, and reads atomics.
            unsafe {
                let mut action: libc::sigaction = mem::zeroed();
                let mut previous: libc::sigaction = mem::zeroed();
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    on_bus_error;
                action.sa_sigaction = handler as libc::sighandler_t;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigemptyset(&raw mut action.sa_mask);
                libc::sigaction(libc::SIGBUS, &raw const action, &raw mut previous);
                previous
            }
        });
    }

    extern "C" fn on_bus_error(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: the system hands a valid description to a handler that was
        // installed with `SA_SIGINFO`.
        let address = unsafe { (*info).si_addr() } as usize;
        let end = SLOTS.iter().find_map(|slot| slot.end_of(address));
        if end.is_some_and(|end| replace_by_zeros(address, end)) {
            return;
        }
        // Not one of ours: the instruction faults again under whatever action
        // was there before.
        if let Some(previous) = PREVIOUS.get() {
            // SAFETY: an action that the system gave us.
            unsafe { libc::sigaction(libc::SIGBUS, previous, ptr::null_mut()) };
        }
    }

    /// Puts pages of zeros in the place of those from `address` to `end`.
    fn replace_by_zeros(address: usize, end: usize) -> bool {
        // SAFETY: the range lies inside a live map that nobody writes to; its
        // pages are gone from the file, so nothing that could be read is lost.
        unsafe {
            let page_bytes = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap_or(4096);
            let start = address / page_bytes * page_bytes;
            let mapped = libc::mmap(
                start as *mut libc::c_void,
                end - start,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            );
            mapped != libc::MAP_FAILED
        }
    }
}
