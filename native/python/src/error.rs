//! Errors as exceptions.

use std::io;

use pyo3::exceptions::{PyOSError, PyRuntimeError};
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
    if let Error::Io { source, .. } = &error {
        // Raised by a Python object that was read from.
        if let Some(raised) = source.get_ref().and_then(|e| e.downcast_ref::<PyErr>()) {
            return raised.clone_ref(py);
        }
        if let Some(number) = error_number(source) {
            return PyOSError::new_err((number, message));
        }
    }
    zstn_error(py, message, error.code())
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

/// Returns the exception for work that ended without a result.
pub fn lost() -> PyErr {
    PyRuntimeError::new_err("the work was stopped")
}
