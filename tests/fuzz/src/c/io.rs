//! Callbacks that read a file in memory. They may return fewer bytes than requested, or
//! fail.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use zstn_capi::zstn_io;

use crate::part;

/// A file, and how its callbacks behave.
pub struct File<'a> {
    bytes: &'a [u8],
    /// Maximum number of bytes that a call returns.
    most: usize,
    /// Number of calls that succeed, and the result of all later calls.
    failure: Option<(u64, i64)>,
    calls: AtomicU64,
    released: AtomicUsize,
}

impl<'a> File<'a> {
    pub fn new(bytes: &'a [u8], most: usize, failure: Option<(u64, i64)>) -> Self {
        Self {
            bytes,
            most,
            failure,
            calls: AtomicU64::new(0),
            released: AtomicUsize::new(0),
        }
    }

    pub fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns the callbacks, which are valid while this file is borrowed.
    pub fn callbacks(&self) -> zstn_io {
        zstn_io {
            struct_size: size_of::<zstn_io>(),
            ctx: ptr::from_ref(self).cast_mut().cast(),
            read_at: Some(read_at),
            release: Some(release),
            name: c"a file in memory".as_ptr(),
        }
    }

    /// Checks that the library released the file exactly `times` times.
    pub fn is_released(&self, times: usize) {
        assert_eq!(self.released.load(Ordering::Relaxed), times);
    }
}

/// Implements `read_at` of `zstn_io`. A panic ends the process.
///
/// # Safety
/// `ctx` points to a live [`File`], and `buffer` to `len` writable bytes.
unsafe extern "C" fn read_at(
    ctx: *mut c_void,
    offset: u64,
    buffer: *mut c_void,
    len: usize,
) -> i64 {
    // SAFETY: the caller guarantees that `ctx` points to a live `File`, which is only
    // accessed through shared references.
    let file = unsafe { &*ctx.cast::<File>() };
    assert_eq!(file.released.load(Ordering::Relaxed), 0, "it was released");
    assert!(len > 0, "nothing was asked for");
    let all = part(file.bytes, offset..offset + len as u64);
    let call = file.calls.fetch_add(1, Ordering::Relaxed);
    match file.failure {
        Some((good, result)) if call >= good => return result,
        _ => {}
    }
    let some = &all[..len.min(file.most)];
    // SAFETY: the caller guarantees `len` writable bytes at `buffer`, and `some` is at
    // most that long. The buffer belongs to the library, so it does not overlap the
    // file.
    unsafe { ptr::copy_nonoverlapping(some.as_ptr(), buffer.cast(), some.len()) };
    i64::try_from(some.len()).expect("a small file")
}

/// Records that the library has released the file.
///
/// # Safety
/// `ctx` points to a live [`File`].
unsafe extern "C" fn release(ctx: *mut c_void) {
    // SAFETY: the caller guarantees that `ctx` points to a live `File`, which is only
    // accessed through shared references.
    let file = unsafe { &*ctx.cast::<File>() };
    file.released.fetch_add(1, Ordering::Relaxed);
}
