//! The native engine without additional threads.

use zstn_core::engine::{Engine, PackEngine, ZstdCoding};

/// Encodes and decodes like [`zstn::Engine`], but runs jobs sequentially on the calling
/// thread. Even a pool of one thread has its own thread, which a profiler counts
/// separately.
#[derive(Debug)]
pub struct OneThread(zstn::Engine);

impl OneThread {
    /// Creates the engine.
    ///
    /// # Panics
    /// If no thread can be started.
    #[must_use]
    pub fn new() -> Self {
        Self(zstn::Engine::new(1).expect("a thread"))
    }
}

impl Default for OneThread {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine for OneThread {
    fn zstd_decode(&self, frame: &[u8], out: &mut [u8]) -> Result<(), String> {
        self.0.zstd_decode(frame, out)
    }

    fn map<T, R, F>(&self, items: Vec<T>, job: F) -> Vec<R>
    where
        T: Send,
        R: Send,
        F: Fn(T) -> R + Sync + Send,
    {
        items.into_iter().map(job).collect()
    }
}

impl PackEngine for OneThread {
    fn zstd_encode(&self, input: &[u8], coding: ZstdCoding, out: &mut Vec<u8>) {
        self.0.zstd_encode(input, coding, out);
    }
}
