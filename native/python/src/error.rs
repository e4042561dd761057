//! Conversion of errors to Python exceptions.

use std::io;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use zstn::Error;

/// Returns an instance of `zstn.ZstnError`, or of its subclass `TensorNotFoundError`
/// for the code `not_found`.
pub fn zstn_error(py: Python<'_>, message: String, code: &str) -> PyErr {
    raise(py, message, code, false)
}

fn raise(py: Python<'_>, message: String, code: &str, retryable: bool) -> PyErr {
    static GENERAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static NO_TENSOR: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = match code {
        "not_found" => NO_TENSOR.import(py, "zstn._errors", "TensorNotFoundError"),
        _ => GENERAL.import(py, "zstn._errors", "ZstnError"),
    };
    match class {
        Ok(class) => PyErr::from_type(class.clone(), (message, code.to_owned(), retryable)),
        Err(error) => error,
    }
}

/// Returns the exception for an error of the `zstn` crate.
pub fn to_python(py: Python<'_>, error: Error) -> PyErr {
    let message = error.to_string();
    if let Error::Io { action, source } = &error {
        // A Python object raised this exception while it was read.
        if let Some(raised) = source.get_ref().and_then(|e| e.downcast_ref::<PyErr>()) {
            return raised.clone_ref(py);
        }
        if let Some(number) = error_number(source) {
            return match subject(action) {
                Some((verb, path)) => {
                    let reason = source.to_string();
                    let reason = reason.split(" (os error").next().unwrap_or_default();
                    let message = format!("cannot {verb}: {reason}");
                    PyOSError::new_err((number, message, path.to_owned()))
                }
                None => PyOSError::new_err((number, message)),
            };
        }
    }
    raise(py, message, error.code(), error.is_retryable())
}

/// Splits an action such as "open model.zstn" into its verb and the path of a file.
fn subject(action: &str) -> Option<(&str, &str)> {
    const VERBS: [&str; 9] = [
        "read the folder",
        "make the folder",
        "reserve space for",
        "write into",
        "complete",
        "write",
        "open",
        "list",
        "read",
    ];
    let verb = VERBS.into_iter().find(|verb| {
        let rest = action.strip_prefix(verb);
        rest.is_some_and(|rest| rest.starts_with(' '))
    })?;
    let path = &action[verb.len() + 1..];
    // Some actions with these verbs name an address or a phrase instead of a path.
    let is_path = !path.contains("://") && !path.starts_with("the ") && path != "standard input";
    is_path.then_some((verb, path))
}

/// Returns the `errno`, which determines the subclass of `OSError`.
fn error_number(error: &io::Error) -> Option<i32> {
    // These numbers are the same on all systems that run Python.
    error.raw_os_error().or(match error.kind() {
        io::ErrorKind::NotFound => Some(2),
        io::ErrorKind::PermissionDenied => Some(13),
        _ => None,
    })
}

/// Wraps an exception that a Python object raised while it was read. [`to_python`]
/// returns that exception again.
pub fn from_python(action: impl Into<String>, error: PyErr) -> Error {
    Error::io(action, io::Error::other(error))
}
