//! The C library, called as a program in C calls it: by pointers, handles and
//! statuses. What the header promises of every function is checked here.

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

/// What a function stores, or its status.
type Outcome<T> = Result<T, zstn_status>;

/// The statuses that malformed files and failing callbacks may lead to. Any other,
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

/// Calls a function with memory for the reason of an error, which has to be there if
/// it fails. A function that succeeds leaves the memory as it is.
fn call(function: impl FnOnce(*mut zstn_error) -> zstn_status) -> Outcome<()> {
    const UNTOUCHED: zstn_error = zstn_error {
        code: 77,
        message: [1; 1020],
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

/// A handle, which is freed when it is dropped.
struct Handle<T> {
    pointer: *mut T,
    free: unsafe extern "C" fn(*mut T),
}

impl<T> Handle<T> {
    /// Calls a function that makes a handle; after an error that has to be NULL.
    fn new(
        free: unsafe extern "C" fn(*mut T),
        make: impl FnOnce(*mut *mut T, *mut zstn_error) -> zstn_status,
    ) -> Outcome<Self> {
        // Neither NULL nor a handle, so that it is seen if nothing is stored.
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
        // SAFETY: a handle of that function, which nobody uses any more.
        unsafe { (self.free)(self.pointer) }
    }
}

/// Starts an engine of one thread.
fn engine() -> Handle<zstn_engine> {
    static SPEAKS: Once = Once::new();
    let engine = Handle::new(zstn_engine_free, |out, error| {
        // SAFETY: the address of a pointer, and memory for an error.
        unsafe { zstn_engine_new(1, out, error) }
    });
    // The library keeps panics silent from its first call on; those of the checks
    // here have to be seen.
    SPEAKS.call_once(|| panic::set_hook(Box::new(|panic| eprintln!("{panic}"))));
    engine.expect("a thread")
}

/// Returns a text of the library.
///
/// # Safety
/// It is NULL or valid as long as the result is used.
unsafe fn text<'a>(text: *const c_char) -> &'a CStr {
    assert!(!text.is_null(), "a text is NULL");
    // SAFETY: see above.
    let text = unsafe { CStr::from_ptr(text) };
    assert!(text.to_str().is_ok(), "a text is not UTF-8");
    text
}

/// Returns a number of bytes that has been compared with a limit.
fn index(len_bytes: u64) -> usize {
    usize::try_from(len_bytes).expect("a length within the limit")
}
