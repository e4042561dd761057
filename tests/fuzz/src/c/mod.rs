//! Calls the C library as a C program does, with pointers, handles and status codes,
//! and checks the guarantees that the header gives for every function.

#![warn(clippy::undocumented_unsafe_blocks)]

mod fetched_ranges;
mod reader;
mod session;

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{self, NonNull};
use std::sync::Once;
use std::{mem, panic, slice};

pub use session::{Choice, run};
use zstn_capi::{
    ZSTN_ERROR_FORMAT, ZSTN_ERROR_IO, ZSTN_ERROR_MEMORY, ZSTN_ERROR_NEEDS_BASE,
    ZSTN_ERROR_NOT_FOUND, ZSTN_ERROR_UNSUPPORTED, ZSTN_ERROR_USAGE, ZSTN_NONE, ZSTN_OK,
    zstn_engine, zstn_engine_free, zstn_engine_new, zstn_error, zstn_metadata, zstn_model,
    zstn_model_find, zstn_model_kind, zstn_model_metadata, zstn_model_metadata_count,
    zstn_model_needs_base, zstn_model_tensor, zstn_model_tensor_count, zstn_status, zstn_tensor,
};

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

/// Number of bytes before and after a buffer that must not be written.
const GUARD_BYTES: usize = 64;
/// Initial values of buffers and their guards. A result is read twice with different
/// initial values, which reveals bytes that the library does not write.
const GUARDS: [u8; 2] = [0xA5, 0x3C];

/// A caller's buffer with a guard on both sides.
pub struct GuardedBuffer {
    bytes: Vec<u8>,
    len: usize,
    guard: u8,
}

impl GuardedBuffer {
    /// Allocates a buffer of `len` bytes; `number` selects its initial value.
    pub fn new(len: usize, number: usize) -> Self {
        let guard = GUARDS[number % GUARDS.len()];
        Self {
            bytes: vec![guard; len + 2 * GUARD_BYTES],
            len,
            guard,
        }
    }

    pub fn pointer(&mut self) -> *mut c_void {
        self.bytes[GUARD_BYTES..].as_mut_ptr().cast()
    }

    /// Returns the buffer after checking that the guards are intact.
    pub fn into_bytes(mut self) -> Vec<u8> {
        let (before, rest) = self.bytes.split_at(GUARD_BYTES);
        let guards = before.iter().chain(&rest[self.len..]);
        assert!(
            guards.into_iter().all(|byte| *byte == self.guard),
            "the library wrote beside the {} bytes of a result",
            self.len
        );
        self.bytes.truncate(GUARD_BYTES + self.len);
        self.bytes.split_off(GUARD_BYTES)
    }
}

/// Calls a function that fills `len` bytes. A buffer that is one byte too short must be
/// refused before anything is written.
pub fn fill(
    len: usize,
    number: usize,
    function: impl Fn(*mut c_void, usize, *mut zstn_error) -> zstn_status,
) -> Outcome<Vec<u8>> {
    if let Some(short) = len.checked_sub(1) {
        let mut buffer = GuardedBuffer::new(short, number);
        let refused = call(|error| function(buffer.pointer(), short, error));
        assert_eq!(refused, Err(ZSTN_ERROR_USAGE), "{short} bytes for {len}");
        let guard = buffer.guard;
        assert!(buffer.into_bytes().iter().all(|byte| *byte == guard));
    }
    let mut buffer = GuardedBuffer::new(len, number);
    let outcome = call(|error| function(buffer.pointer(), len, error));
    let bytes = buffer.into_bytes();
    outcome.map(|()| bytes)
}

/// A tensor in the list of a model.
#[derive(Debug, PartialEq)]
pub struct Listed {
    /// The name up to its first NUL, in the form that C functions accept.
    pub name: CString,
    /// True if `name` is the complete name. In C, a tensor whose name contains a NUL
    /// cannot be requested.
    pub has_name: bool,
    pub dtype: CString,
    pub shape: Vec<u64>,
    pub len_bytes: u64,
    pub stored_len_bytes: u64,
    pub needs_base: bool,
    alias_of: u64,
}

/// Reads the list of a model and checks its consistency.
///
/// # Safety
/// `model` is a valid handle that is not freed during the call.
pub unsafe fn tensors(model: *const zstn_model) -> Vec<Listed> {
    // SAFETY: the caller guarantees that `model` is a valid handle; `text` is used only
    // while the handle is valid.
    let (count, kind, needs_base) = unsafe {
        (
            zstn_model_tensor_count(model),
            text(zstn_model_kind(model)),
            zstn_model_needs_base(model),
        )
    };
    assert!(!kind.is_empty() && [0, 1].contains(&needs_base));
    // SAFETY: the caller guarantees that `model` is a valid handle during this
    // function.
    let tensors = (0..count).map(|number| unsafe { tensor(model, number) });
    let tensors: Vec<Listed> = tensors.collect();
    for (number, tensor) in (0..).zip(&tensors) {
        assert!(tensor.alias_of == ZSTN_NONE || tensor.alias_of < count as u64);
        assert!(tensor.alias_of != number);
        assert!(needs_base == 1 || !tensor.needs_base);
    }
    let mut none = unset();
    let refused = call(|error| {
        // SAFETY: `model` is a valid handle, `none` is a `zstn_tensor` with its
        // `struct_size` set, and `error` comes from `call`.
        unsafe { zstn_model_tensor(model, count, &raw mut none, error) }
    });
    assert_eq!(refused, Err(ZSTN_ERROR_USAGE));
    // SAFETY: the caller guarantees that `model` is a valid handle.
    unsafe { metadata(model) };
    tensors
}

fn unset() -> zstn_tensor {
    zstn_tensor {
        struct_size: size_of::<zstn_tensor>(),
        name: ptr::null(),
        name_len: 0,
        dtype: ptr::null(),
        shape: ptr::null(),
        rank: 0,
        len: 0,
        stored_len: 0,
        alias_of: 0,
        dtype_bits: 0,
        needs_base: 0,
    }
}

/// Reads the tensor with index `number`.
///
/// # Safety
/// The requirements of [`tensors`] apply.
unsafe fn tensor(model: *const zstn_model, number: usize) -> Listed {
    let mut tensor = unset();
    let listed = call(|error| {
        // SAFETY: `model` is a valid handle, `tensor` is a `zstn_tensor` with its
        // `struct_size` set, and `error` comes from `call`.
        unsafe { zstn_model_tensor(model, number, &raw mut tensor, error) }
    });
    listed.expect("a tensor of the list");
    // SAFETY: the library stored NUL-terminated strings that live as long as the model;
    // `name_len` excludes the NUL.
    let (name, dtype) = unsafe { (named(tensor.name, tensor.name_len), text(tensor.dtype)) };
    let shape = match tensor.rank {
        0 => &[],
        // SAFETY: the library stored a pointer to `rank` numbers that live as long as
        // the model.
        rank => unsafe { slice::from_raw_parts(tensor.shape, rank) },
    };
    let elements = shape.iter().map(|size| u128::from(*size)).product::<u128>();
    let bits = u128::try_from(tensor.dtype_bits).expect("bits of an element");
    assert_eq!((elements * bits).div_ceil(8), u128::from(tensor.len));
    let has_name = name.to_bytes().len() == tensor.name_len;
    if has_name {
        let mut found = usize::MAX;
        let outcome = call(|error| {
            // SAFETY: `model` is a valid handle, `name` is NUL-terminated, `found` is
            // writable, and `error` comes from `call`.
            unsafe { zstn_model_find(model, name.as_ptr(), &raw mut found, error) }
        });
        assert_eq!((outcome, found), (Ok(()), number));
    }
    Listed {
        name: name.into(),
        has_name,
        dtype: dtype.into(),
        shape: shape.to_vec(),
        len_bytes: tensor.len,
        stored_len_bytes: tensor.stored_len,
        needs_base: tensor.needs_base == 1,
        alias_of: tensor.alias_of,
    }
}

/// Reads all metadata, which must be sorted by key.
///
/// # Safety
/// The requirements of [`tensors`] apply.
unsafe fn metadata(model: *const zstn_model) {
    // SAFETY: the caller guarantees that `model` is a valid handle.
    let count = unsafe { zstn_model_metadata_count(model) };
    let entry = |number| {
        // SAFETY: `zstn_metadata` consists of pointers and lengths, and all-zero bytes
        // are valid for both.
        let mut entry: zstn_metadata = unsafe { mem::zeroed() };
        call(|error| {
            // SAFETY: `model` is a valid handle, `entry` is a writable `zstn_metadata`,
            // and `error` comes from `call`.
            unsafe { zstn_model_metadata(model, number, &raw mut entry, error) }
        })
        .map(|()| entry)
    };
    let mut last: Option<&[u8]> = None;
    for number in 0..count {
        let entry = entry(number).expect("an entry of the list");
        // SAFETY: the library stored a string with its length that is followed by a NUL
        // and lives as long as the model.
        unsafe { named(entry.value, entry.value_len) };
        // SAFETY: the key is such a string, too, so its first `key_len` bytes are
        // readable.
        let key = unsafe {
            named(entry.key, entry.key_len);
            slice::from_raw_parts(entry.key.cast::<u8>(), entry.key_len)
        };
        assert!(last.is_none_or(|last| last < key));
        last = Some(key);
    }
    assert_eq!(entry(count).map(|_| ()), Err(ZSTN_ERROR_USAGE));
}

/// Returns a string of `len` bytes up to its first NUL. A forged string may contain
/// NULs before the one that terminates it.
///
/// # Safety
/// `start` is null or points to `len + 1` bytes that stay valid while the result is
/// used.
unsafe fn named<'a>(start: *const c_char, len: usize) -> &'a CStr {
    assert!(!start.is_null());
    // SAFETY: `start` is not null, so the caller guarantees `len + 1` readable bytes.
    let bytes = unsafe { slice::from_raw_parts(start.cast::<u8>(), len + 1) };
    let (end, all) = bytes.split_last().expect("at least a NUL");
    assert!(*end == 0 && str::from_utf8(all).is_ok());
    CStr::from_bytes_until_nul(bytes).expect("it ends in a NUL")
}
