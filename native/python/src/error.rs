//! Errors as exceptions.

use std::io;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use zstn::Error;

/// Returns an instance of `zstn.ZstnError`, or of its subclass for a tensor that
/// is not there.
pub fn zstn_error(py: Python<'_>, message: String, code: &str) -> PyErr {
    static GENERAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static NO_TENSOR: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = match code {
        "not_found" => NO_TENSOR.import(py, "zstn._errors", "TensorNotFoundError"),
        _ => GENERAL.import(py, "zstn._errors", "ZstnError"),
    };
    match class {
        Ok(class) => PyErr::from_type(class.clone(), (message, code.to_owned())),
        Err(error) => error,
    }
}

/// Returns the exception for an error of the library.
pub fn to_python(py: Python<'_>, error: Error) -> PyErr {
    let message = error.to_string();
    if let Error::Io { action, source } = &error {
        // Raised by a Python object that was read from.
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
    zstn_error(py, message, error.code())
}

/// Cuts an action, such as "open model.zstn", into what is done and the path of a file.
fn subject(action: &str) -> Option<(&str, &str)> {
    const VERBS: [&str; 8] = [
        "read the folder",
        "make the folder",
        "make room for",
        "write into",
        "complete",
        "write",
        "open",
        "read",
    ];
    let verb = VERBS.into_iter().find(|verb| {
        let rest = action.strip_prefix(verb);
        rest.is_some_and(|rest| rest.starts_with(' '))
    })?;
    let path = &action[verb.len() + 1..];
    // Others are no names of files.
    let is_path = !path.contains("://") && !path.starts_with("the ") && path != "standard input";
    is_path.then_some((verb, path))
}

/// Returns the number by which `OSError` chooses its subclass.
fn error_number(error: &io::Error) -> Option<i32> {
    // The numbers are those of all systems that Python runs on.
    error.raw_os_error().or(match error.kind() {
        io::ErrorKind::NotFound => Some(2),
        io::ErrorKind::PermissionDenied => Some(13),
        _ => None,
    })
}

/// Returns the error for an exception that a Python object raised while it was
/// read from. [`to_python`] returns the exception.
pub fn from_python(action: impl Into<String>, error: PyErr) -> Error {
    Error::io(action, io::Error::other(error))
}
