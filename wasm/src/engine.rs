//! The engine of this build: how it decodes zstd and runs jobs.

#[cfg(not(feature = "threads"))]
pub const ENGINE: zstn_core::pure::Pure = zstn_core::pure::Pure;

#[cfg(feature = "threads")]
pub const ENGINE: Threads = Threads;

/// An engine that decodes zstd in Rust and runs jobs on the page's thread pool.
#[cfg(feature = "threads")]
pub struct Threads;

#[cfg(feature = "threads")]
impl zstn_core::engine::Engine for Threads {
    fn zstd_decode(&self, frame: &[u8], out: &mut [u8]) -> Result<(), String> {
        zstn_core::pure::Pure.zstd_decode(frame, out)
    }

    fn map<T, R, F>(&self, items: Vec<T>, job: F) -> Vec<R>
    where
        T: Send,
        R: Send,
        F: Fn(T) -> R + Sync + Send,
    {
        use rayon::prelude::*;
        items.into_par_iter().map(job).collect()
    }
}
