//! The individual stages of packing and reading, on data from fixed seeds. They are
//! timed by `cargo bench`, and `cargo xtask instructions` counts their instructions.
//!
//! All stages run on the calling thread ([`OneThread`]) and use only the public API of
//! the crates.

mod extensions;
mod files;
mod planes;
pub mod tensors;

use std::fmt;

use zstn_core::engine::{Engine, PackEngine, ZstdCoding};

pub use crate::extensions::extensions;
pub use crate::files::{files, frames, statistics};
pub use crate::planes::{coders, peers, planes, structured};

/// A stage whose input has not been generated yet.
pub struct Stage {
    name: String,
    prepare: Box<dyn Fn(usize) -> Work + Send + Sync>,
}

impl Stage {
    /// Creates a stage. `prepare` gets the length of a tensor in bytes and generates
    /// the input.
    fn new(
        name: impl Into<String>,
        prepare: impl Fn(usize) -> Work + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            prepare: Box::new(prepare),
        }
    }

    /// Returns the name, which consists of the input, the operation and the engine.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Generates the input from a tensor of `tensor_bytes` bytes.
    #[must_use]
    pub fn prepare(&self, tensor_bytes: usize) -> Work {
        (self.prepare)(tensor_bytes)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A stage with its input, which can be run any number of times.
pub struct Work {
    len_bytes: usize,
    run: Box<dyn FnMut()>,
}

impl Work {
    /// Creates the work; `run` processes `len_bytes` uncoded bytes.
    fn new(len_bytes: usize, run: impl FnMut() + 'static) -> Self {
        Self {
            len_bytes,
            run: Box::new(run),
        }
    }

    /// Returns the number of bytes before encoding or after decoding.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Runs the stage once.
    pub fn run(&mut self) {
        (self.run)();
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "work on {} bytes", self.len_bytes)
    }
}

/// Returns every stage, in the order of packing.
#[must_use]
pub fn all() -> Vec<Stage> {
    [
        planes(),
        structured(),
        coders(),
        frames(),
        extensions(),
        statistics(),
        files(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

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
