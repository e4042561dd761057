//! Calls the C library as a C program does, with pointers, handles and status codes,
//! and checks the guarantees that the header gives for every function.

#![warn(clippy::undocumented_unsafe_blocks)]

mod io;
mod list;
mod opening;
mod plan;
mod reader;
mod room;
mod session;

use std::ffi::{CStr, c_char};
use std::panic;
use std::ptr::NonNull;
use std::sync::Once;

use zstn_capi::{
    ZSTN_ERROR_FORMAT, ZSTN_ERROR_IO, ZSTN_ERROR_MEMORY, ZSTN_ERROR_NEEDS_BASE,
    ZSTN_ERROR_NOT_FOUND, ZSTN_ERROR_UNSUPPORTED, ZSTN_ERROR_USAGE, ZSTN_OK, zstn_engine,
    zstn_engine_free, zstn_engine_new, zstn_error, zstn_status,
};

pub use session::{Choice, run};

/// The value that a function stores, or its status.
type Outcome<T> = Result<T, zstn_status>;

/// The statuses that malformed files and failing callbacks may cause. Any other status,
/// above all `ZSTN_ERROR_PANIC`, is a defect.
const ANSWERS: [zstn_status; 7] = [
    ZSTN_ERROR_FORMAT,
    ZSTN_ERROR_IO,
    ZSTN_ERROR_USAGE,
    ZSTN_ERROR_NEEDS_BASE,
    ZSTN_ERROR_MEMORY,
    ZSTN_ERROR_UNSUPPORTED,
    ZSTN_ERROR_NOT_FOUND,
];

/// Calls a function with memory for an error, which is valid for writes during the
/// call. The function must fill it if it fails, and leave it untouched if it succeeds.
fn call(function: impl FnOnce(*mut zstn_error) -> zstn_status) -> Outcome<()> {
    const UNTOUCHED: zstn_error = zstn_error {
        code: 77,
        is_retryable: 77,
        message: [1; 1016],
    };
    let mut error = UNTOUCHED;
    let status = function(&raw mut error);
    if status == ZSTN_OK {
        assert!(error.code == UNTOUCHED.code && error.message == UNTOUCHED.message);
        return Ok(());
    }
    let message = error.message.map(|byte| byte.to_ne_bytes()[0]);
    let message = CStr::from_bytes_until_nul(&message).expect("a message that ends");
    let message = message.to_str().expect("a message in UTF-8");
    assert!(ANSWERS.contains(&status), "status {status}: {message}");
    assert_eq!(error.code, status, "{message}");
    assert!(!message.is_empty(), "status {status} has no message");
    Err(status)
}

/// An owned handle, which is freed when dropped.
struct Handle<T> {
    pointer: *mut T,
    free: unsafe extern "C" fn(*mut T),
}

impl<T> Handle<T> {
    /// Calls a function that creates a handle, which must be null after an error. Both
    /// pointers that `make` receives are valid for writes during the call.
    fn new(
        free: unsafe extern "C" fn(*mut T),
        make: impl FnOnce(*mut *mut T, *mut zstn_error) -> zstn_status,
    ) -> Outcome<Self> {
        // This pointer is neither null nor a handle, so it reveals that nothing was
        // stored.
        let unset = NonNull::dangling().as_ptr();
        let mut pointer = unset;
        let outcome = call(|error| make(&raw mut pointer, error));
        assert_eq!(outcome.is_err(), pointer.is_null());
        outcome.map(|()| {
            assert!(pointer != unset, "no handle was stored");
            Self { pointer, free }
        })
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: `pointer` is a handle created together with `free`, and this value
        // owned it exclusively.
        unsafe { (self.free)(self.pointer) }
    }
}

/// Starts an engine with one thread.
fn engine() -> Handle<zstn_engine> {
    static SPEAKS: Once = Once::new();
    let engine = Handle::new(zstn_engine_free, |out, error| {
        // SAFETY: `out` points to a writable pointer, and `error` comes from `call`.
        unsafe { zstn_engine_new(1, out, error) }
    });
    // The library silences panics from its first call on; panics of the checks here
    // must be visible.
    SPEAKS.call_once(|| panic::set_hook(Box::new(|panic| eprintln!("{panic}"))));
    engine.expect("a thread")
}

/// Returns a string of the library.
///
/// # Safety
/// `text` is null or points to a NUL-terminated string that stays valid while the
/// result is used.
unsafe fn text<'a>(text: *const c_char) -> &'a CStr {
    assert!(!text.is_null(), "a text is NULL");
    // SAFETY: `text` is not null, so the caller guarantees a NUL-terminated string.
    let text = unsafe { CStr::from_ptr(text) };
    assert!(text.to_str().is_ok(), "a text is not UTF-8");
    text
}

/// Converts a number of bytes that is known to be within the limit.
fn index(len_bytes: u64) -> usize {
    usize::try_from(len_bytes).expect("a length within the limit")
}
