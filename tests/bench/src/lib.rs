//! The individual stages of packing and reading, on data from fixed seeds. They are
//! timed by `cargo bench`, and `cargo xtask instructions` counts their instructions.
//!
//! All stages run on the calling thread ([`OneThread`]) and use only the public API of
//! the crates.

use std::fmt;

mod coders;
mod extensions;
mod files;
mod frames;
mod one_thread;
mod planes;
mod statistics;
mod structured;
pub mod tensors;

pub use coders::{coders, peers};
pub use extensions::extensions;
pub use files::files;
pub use frames::frames;
pub use one_thread::OneThread;
pub use planes::planes;
pub use statistics::statistics;
pub use structured::structured;

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
