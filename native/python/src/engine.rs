//! The engine of the process.

use std::mem;
use std::process;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use zstn::{Engine, Error, Result};

struct OfProcess {
    process: u32,
    engine: Engine,
}

static ENGINE: Mutex<Option<OfProcess>> = Mutex::new(None);

/// Returns the engine of this process, which is made on the first call, and
/// again after a fork: a child has none of its parent's threads.
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
    // To end a pool means to wake its threads, and these are not there.
    mem::forget(former);
    Ok(made)
}

/// The argument `threads` of a function. It is looked at by [`with_threads`], since an
/// error while arguments are converted would reach the caller as one of the binding.
#[derive(Debug, Clone, Copy)]
pub enum Threads {
    /// A whole number; one that does not fit is cut to the greatest or least.
    Number(i128),
    /// Anything else.
    NoNumber,
}

impl FromPyObject<'_, '_> for Threads {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let Ok(number) = given.call_method0("__index__") else {
            return Ok(Self::NoNumber);
        };
        let limit = if number.lt(0)? { i128::MIN } else { i128::MAX };
        Ok(Self::Number(number.extract().unwrap_or(limit)))
    }
}

/// Returns an engine of `threads` threads; 0 means that of the process.
///
/// # Errors
/// [`Error::Usage`] for a number that no engine can have; those of [`Engine::new`].
pub fn with_threads(threads: Threads) -> Result<Engine> {
    let Threads::Number(threads) = threads else {
        return Err(Error::Usage(
            "`threads` is a whole number; 0 means one per core".into(),
        ));
    };
    match Engine::check_threads(threads)? {
        0 => shared(),
        threads => Engine::new(threads),
    }
}
