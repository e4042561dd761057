//! A file in memory behind callbacks, which return less than they are asked for, or
//! fail.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use zstn_capi::zstn_io;

use crate::part;

/// The file, and how it is read.
pub struct File<'a> {
    bytes: &'a [u8],
    /// The most bytes that a call returns.
    most: usize,
    /// Calls before the first that fails, and what that returns.
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

    /// Returns the callbacks. They are valid as long as the file is.
    pub fn callbacks(&self) -> zstn_io {
        zstn_io {
            struct_size: size_of::<zstn_io>(),
            ctx: ptr::from_ref(self).cast_mut().cast(),
            read_at: Some(read_at),
            release: Some(release),
            name: c"a file in memory".as_ptr(),
        }
    }

    /// Checks that the library has let go of the file, as often as it was given it.
    pub fn is_released(&self, times: usize) {
        assert_eq!(self.released.load(Ordering::Relaxed), times);
    }
}

/// Reads as `zstn_io` says. A panic ends the process.
///
/// # Safety
/// `ctx` is a [`File`], and there is room for `len` bytes at `buffer`.
unsafe extern "C" fn read_at(
    ctx: *mut c_void,
    offset: u64,
    buffer: *mut c_void,
    len: usize,
) -> i64 {
    // SAFETY: see above.
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
    // SAFETY: no more than there is room for, in memory of the library's own.
    unsafe { ptr::copy_nonoverlapping(some.as_ptr(), buffer.cast(), some.len()) };
    i64::try_from(some.len()).expect("a small file")
}

/// Notes that the library needs the file no more.
///
/// # Safety
/// `ctx` is a [`File`].
unsafe extern "C" fn release(ctx: *mut c_void) {
    // SAFETY: see above.
    let file = unsafe { &*ctx.cast::<File>() };
    file.released.fetch_add(1, Ordering::Relaxed);
}
