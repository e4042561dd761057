//! The engine of the process.

use std::mem;
use std::process;
use std::sync::{Mutex, PoisonError};

use zstn::{Engine, Result};

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

/// Returns an engine of `threads` threads; 0 means that of the process.
pub fn with_threads(threads: usize) -> Result<Engine> {
    match threads {
        0 => shared(),
        _ => Engine::new(threads),
    }
}
