//! Threads that decode and encode.

use zstn::Engine;

use crate::handle::{self, Out};
use crate::pointer;
use crate::status::{self, zstn_error, zstn_status};

/// Threads that decode and encode. Readers and functions that are given none
/// share an engine with a thread for each processor, which is made when it is
/// first needed and stays. Any number of threads may use one engine at the same
/// time.
pub struct zstn_engine(Engine);

/// Returns the engine of a pointer; NULL is the shared one.
///
/// # Safety
/// The pointer is NULL or a handle of an engine.
pub unsafe fn of(engine: *const zstn_engine) -> Engine {
    // SAFETY: see above.
    match unsafe { engine.as_ref() } {
        Some(zstn_engine(engine)) => engine.clone(),
        None => Engine::default(),
    }
}

/// Starts an engine with `threads` threads; 0 means one for each processor. More than
/// eight for each processor, or 16 if that is more, are refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_engine_new(
    threads: u32,
    engine: *mut *mut zstn_engine,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: an out parameter, as the header says.
        let out = unsafe { Out::new(engine) }?;
        let threads = usize::try_from(threads).unwrap_or(usize::MAX);
        out.set(zstn_engine(Engine::new(threads)?));
        Ok(())
    })
}

/// Stores the number of threads of an engine; `engine` may be NULL for the shared
/// one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_engine_threads(
    engine: *const zstn_engine,
    threads: *mut u32,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: NULL or a handle, as the header says.
        let count = unsafe { of(engine) }.threads();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        // SAFETY: an out parameter.
        unsafe { pointer::write(threads, count, "threads") }
    })
}

/// Frees an engine. Its threads end when the last reader that uses them is freed.
/// NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_engine_free(engine: *mut zstn_engine) {
    // SAFETY: a handle that is not used any more, or NULL.
    unsafe { handle::free(engine) }
}
