//! Engines: the pools of threads that decode and encode.

use zstn::Engine;

use crate::pointer::{self, Out};
use crate::status::{self, zstn_error, zstn_status};

/// A pool of threads that decode and encode. Calls without an engine share one that has
/// a thread for each processor; it is created on first use and never destroyed. Any
/// number of threads may use one engine at the same time.
pub struct zstn_engine(Engine);

/// Returns the engine of a handle, or the shared engine for NULL.
///
/// # Safety
/// The pointer is NULL or a live handle.
pub unsafe fn of(engine: *const zstn_engine) -> Engine {
    // SAFETY: this function requires that the pointer is NULL or a live handle.
    match unsafe { engine.as_ref() } {
        Some(zstn_engine(engine)) => engine.clone(),
        None => Engine::default(),
    }
}

/// Creates an engine with `threads` threads; 0 means one for each processor. The
/// largest allowed number is eight for each processor, or 16 if that is more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_engine_new(
    threads: u32,
    engine: *mut *mut zstn_engine,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that `engine` is NULL or a writable address.
        let out = unsafe { Out::new(engine) }?;
        let threads = usize::try_from(threads).unwrap_or(usize::MAX);
        out.set(zstn_engine(Engine::new(threads)?));
        Ok(())
    })
}

/// Stores the number of threads of an engine; NULL means the shared engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_engine_threads(
    engine: *const zstn_engine,
    threads: *mut u32,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that `engine` is NULL or a live handle.
        let count = unsafe { of(engine) }.threads();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        // SAFETY: the header requires that `threads` is NULL or a writable address.
        unsafe { pointer::write(threads, count, "threads") }
    })
}

/// Frees an engine. Its threads end once the last reader that uses them is freed. Does
/// nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_engine_free(engine: *mut zstn_engine) {
    // SAFETY: the header requires that `engine` is NULL or a live handle that is not used
    // again.
    unsafe { pointer::free(engine) }
}
