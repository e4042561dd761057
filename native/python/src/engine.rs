//! The engine that the whole process shares.

use std::mem;
use std::process;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBool;
use zstn::{Engine, Result};

struct OfProcess {
    process: u32,
    engine: Engine,
}

static ENGINE: Mutex<Option<OfProcess>> = Mutex::new(None);

/// Returns the engine of this process. It is created on the first call, and again in a
/// forked child, which has none of its parent's threads.
pub fn shared() -> Result<Engine> {
    let mut engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    let this = process::id();
    if let Some(OfProcess { process, engine }) = &*engine
        && *process == this
    {
        return Ok(engine.clone());
    }
    let made = Engine::new(0)?;
    let former = engine.replace(OfProcess {
        process: this,
        engine: made.clone(),
    });
    // Dropping the parent's pool would wake its threads, which do not exist in the
    // child.
    mem::forget(former);
    Ok(made)
}

/// Returns an engine with `threads` threads, or the engine of the process for 0.
pub fn with_threads(threads: Threads) -> Result<Engine> {
    match threads.0 {
        0 => shared(),
        count => Engine::new(count),
    }
}

/// The argument `threads` of a Python function: 0 means the engine of the process.
#[derive(Clone, Copy)]
pub struct Threads(usize);

impl<'py> FromPyObject<'_, 'py> for Threads {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let is_count = !given.is_instance_of::<PyBool>() && given.hasattr("__index__")?;
        if !is_count {
            let kind = given.get_type().name()?;
            let detail = format!(
                "threads must be a number of threads, not {} of type {kind}",
                given.repr()?
            );
            return Err(PyTypeError::new_err(detail));
        }
        let limit = if given.lt(0)? { i128::MIN } else { i128::MAX };
        let number = given.extract().unwrap_or(limit);
        match Engine::check_threads(number) {
            Ok(count) => Ok(Self(count)),
            Err(error) => Err(PyValueError::new_err(error.to_string())),
        }
    }
}
