//! Status codes of functions, and the caller's memory for the reason of an error.

use std::any::Any;
use std::ffi::c_char;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use zstn::zstn_core::ErrorKind;
use zstn::{Error, zstn_core};

/// The result of a function: `ZSTN_OK`, or a negative `ZSTN_ERROR_...`. Later versions
/// may add error codes.
pub type zstn_status = i32;

/// Success.
pub const ZSTN_OK: i32 = 0;
/// The file is damaged, truncated or forged: its bytes break the rules of their format.
pub const ZSTN_ERROR_FORMAT: i32 = -1;
/// An operation of the operating system, or a callback, failed.
pub const ZSTN_ERROR_IO: i32 = -2;
/// A server did not answer with the requested bytes.
pub const ZSTN_ERROR_HTTP: i32 = -3;
/// Two files that should be equal differ.
pub const ZSTN_ERROR_DIFFERS: i32 = -4;
/// An argument is invalid.
pub const ZSTN_ERROR_USAGE: i32 = -5;
/// A delta cannot be read without its base.
pub const ZSTN_ERROR_NEEDS_BASE: i32 = -6;
/// A progress callback stopped the work.
pub const ZSTN_ERROR_CANCELLED: i32 = -7;
/// A length exceeds a limit of the library, or does not fit in memory.
pub const ZSTN_ERROR_MEMORY: i32 = -8;
/// A defect of the library. Do nothing with the handles of the call but free them.
pub const ZSTN_ERROR_PANIC: i32 = -9;
/// The file is valid, but this version cannot handle its contents.
pub const ZSTN_ERROR_UNSUPPORTED: i32 = -10;
/// The model has no tensor with this name.
pub const ZSTN_ERROR_NOT_FOUND: i32 = -11;
/// The output exists and may not be replaced.
pub const ZSTN_ERROR_EXISTS: i32 = -12;
/// A file has changed since it was opened.
pub const ZSTN_ERROR_CHANGED: i32 = -13;
/// A delta was made from another base than the one that was passed.
pub const ZSTN_ERROR_WRONG_BASE: i32 = -14;
/// A GPU or its driver is missing, too old, or failed.
pub const ZSTN_ERROR_GPU: i32 = -15;

/// The reason of an error, in the caller's memory. A function that fails overwrites it;
/// a function that succeeds does not change it.
#[repr(C)]
pub struct zstn_error {
    /// The status that the function returned.
    pub code: i32,
    /// 1 if the same call may succeed later, because the network or a server failed;
    /// else 0. Requests have already been retried.
    pub is_retryable: i32,
    /// The problem, where it occurred, and what to do: NUL-terminated UTF-8. A longer
    /// message is truncated.
    pub message: [c_char; 1016],
}

/// Returns a short name of a status, such as "needs_base"; "unknown" for other values.
#[unsafe(no_mangle)]
pub extern "C" fn zstn_status_name(status: i32) -> *const c_char {
    let name = match status {
        ZSTN_OK => c"ok",
        ZSTN_ERROR_FORMAT => c"format",
        ZSTN_ERROR_IO => c"io",
        ZSTN_ERROR_HTTP => c"http",
        ZSTN_ERROR_DIFFERS => c"differs",
        ZSTN_ERROR_USAGE => c"usage",
        ZSTN_ERROR_NEEDS_BASE => c"needs_base",
        ZSTN_ERROR_CANCELLED => c"cancelled",
        ZSTN_ERROR_MEMORY => c"memory",
        ZSTN_ERROR_PANIC => c"panic",
        ZSTN_ERROR_UNSUPPORTED => c"unsupported",
        ZSTN_ERROR_NOT_FOUND => c"not_found",
        ZSTN_ERROR_EXISTS => c"exists",
        ZSTN_ERROR_CHANGED => c"changed",
        ZSTN_ERROR_WRONG_BASE => c"wrong_base",
        ZSTN_ERROR_GPU => c"gpu",
        _ => c"unknown",
    };
    name.as_ptr()
}

/// An error before it is written to the caller's memory.
#[derive(Debug)]
pub struct Failure {
    pub status: zstn_status,
    pub is_retryable: bool,
    pub message: String,
}

impl Failure {
    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            status: ZSTN_ERROR_USAGE,
            is_retryable: false,
            message: message.into(),
        }
    }

    fn panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        Self {
            status: ZSTN_ERROR_PANIC,
            is_retryable: false,
            message: format!(
                "a defect of zstn, please report it: {}",
                text.unwrap_or("it said nothing")
            ),
        }
    }

    /// Writes the failure to the caller's memory.
    fn write(&self, out: &mut zstn_error) {
        out.code = self.status;
        out.is_retryable = self.is_retryable.into();
        let room = out.message.len() - 1;
        let mut end = self.message.len().min(room);
        while !self.message.is_char_boundary(end) {
            end -= 1;
        }
        // A NUL inside the message would end the C string early.
        let text = self.message.as_bytes()[..end]
            .iter()
            .map(|byte| if *byte == 0 { b'?' } else { *byte });
        for (to, byte) in out.message.iter_mut().zip(text.chain([0])) {
            *to = c_char::from_ne_bytes([byte]);
        }
    }
}

/// Maps an error of the core to a status.
fn refusal(error: &zstn_core::Error) -> zstn_status {
    if error.code() == "wrong_base" {
        return ZSTN_ERROR_WRONG_BASE;
    }
    match error.kind() {
        ErrorKind::Malformed => ZSTN_ERROR_FORMAT,
        ErrorKind::Limit => ZSTN_ERROR_MEMORY,
        ErrorKind::NotFound => ZSTN_ERROR_NOT_FOUND,
        ErrorKind::InvalidInput => ZSTN_ERROR_USAGE,
        // This arm includes kinds that later versions add.
        _ => ZSTN_ERROR_UNSUPPORTED,
    }
}

impl From<zstn_core::Error> for Failure {
    fn from(error: zstn_core::Error) -> Self {
        Self {
            status: refusal(&error),
            is_retryable: false,
            message: error.to_string(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match &error {
            // Only a progress callback cancels a call.
            Error::Cancelled => {
                return Self {
                    status: ZSTN_ERROR_CANCELLED,
                    is_retryable: false,
                    message: "the progress callback stopped the call".into(),
                };
            }
            Error::Format { source, .. } | Error::Core(source) => refusal(source),
            Error::Http { .. } => ZSTN_ERROR_HTTP,
            Error::Changed { .. } => ZSTN_ERROR_CHANGED,
            Error::Differs { .. } => ZSTN_ERROR_DIFFERS,
            Error::Exists { .. } => ZSTN_ERROR_EXISTS,
            Error::NeedsBase { .. } => ZSTN_ERROR_NEEDS_BASE,
            Error::Cast(_) | Error::Usage(_) => ZSTN_ERROR_USAGE,
            // This arm includes errors that later versions add.
            _ => ZSTN_ERROR_IO,
        };
        Self {
            status,
            is_retryable: error.is_retryable(),
            message: error.to_string(),
        }
    }
}

/// Runs the body of a C function and catches its panics. They are not printed either:
/// the library contains its own copy of the standard library, so the hook set here does
/// not affect the program.
pub fn run(error: *mut zstn_error, work: impl FnOnce() -> Result<(), Failure>) -> zstn_status {
    static SILENCE: Once = Once::new();
    SILENCE.call_once(|| panic::set_hook(Box::new(|_| {})));
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    let failure = match result {
        Ok(Ok(())) => return ZSTN_OK,
        Ok(Err(failure)) => failure,
        Err(payload) => Failure::panic(&*payload),
    };
    // SAFETY: the header requires that `error` is NULL or valid, and that no other
    // thread uses it during the call.
    if let Some(error) = unsafe { error.as_mut() } {
        failure.write(error);
    }
    failure.status
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn error_of(failure: Result<(), Failure>) -> (zstn_status, String) {
        let mut error = zstn_error {
            code: 77,
            is_retryable: 77,
            message: [1; 1016],
        };
        let status = run(&raw mut error, || failure);
        assert_eq!(error.code, status);
        // SAFETY: `Failure::write` ends every message in a NUL.
        let message = unsafe { CStr::from_ptr(error.message.as_ptr()) };
        (status, message.to_str().unwrap().to_owned())
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let (status, message) = error_of(Err(Failure::usage("aß€".repeat(400))));
        assert_eq!(status, ZSTN_ERROR_USAGE);
        assert!("aß€".repeat(400).starts_with(&message));
        assert!((1012..=1015).contains(&message.len()), "{}", message.len());
    }

    #[test]
    fn failures_of_the_network_are_retryable() {
        let url = "https://example.org/x";
        for (failure, expected) in [
            (Error::unanswered(url, "reset"), 1),
            (Error::http(url, "missing", Some(404)), 0),
        ] {
            let mut error = zstn_error {
                code: 0,
                is_retryable: 77,
                message: [0; 1016],
            };
            let status = run(&raw mut error, || Err(failure.into()));
            assert_eq!((status, error.is_retryable), (ZSTN_ERROR_HTTP, expected));
        }
    }

    #[test]
    fn a_nul_does_not_end_a_message() {
        assert_eq!(error_of(Err(Failure::usage("a\0b"))).1, "a?b");
    }

    #[test]
    fn panics_become_a_status() {
        let mut error = zstn_error {
            code: 0,
            is_retryable: 0,
            message: [0; 1016],
        };
        let status = run(&raw mut error, || panic!("number {}", 4));
        assert_eq!((status, error.code), (ZSTN_ERROR_PANIC, ZSTN_ERROR_PANIC));
        // SAFETY: `Failure::write` ends every message in a NUL.
        let message = unsafe { CStr::from_ptr(error.message.as_ptr()) };
        assert!(message.to_str().unwrap().ends_with("number 4"));
        let status = run(std::ptr::null_mut(), || panic!("without memory for it"));
        assert_eq!(status, ZSTN_ERROR_PANIC);
    }
}
