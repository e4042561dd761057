//! The interface between the core and its environment: zstd, and running
//! independent jobs.
//!
//! The native packer implements it with C zstd and a thread pool, WebAssembly
//! uses [`Pure`](crate::pure::Pure). An engine knows nothing about formats:
//! [`crate::entropy::zstd`] checks every zstd frame before an engine decodes
//! it, so that all engines accept and refuse the same files.

use alloc::string::String;
use alloc::vec::Vec;

/// The services that decoding requires from the environment.
pub trait Engine: Sync {
    /// Decodes one zstd frame, which is the whole of `frame`, into `out`.
    ///
    /// # Errors
    /// If the frame does not decode to exactly `out.len()` bytes; the text
    /// describes the problem.
    fn zstd_decode(&self, frame: &[u8], out: &mut [u8]) -> Result<(), String>;

    /// Runs `job` once for every item, in any order or concurrently, and
    /// returns the results in the order of the items.
    fn map<T, R, F>(&self, items: Vec<T>, job: F) -> Vec<R>
    where
        T: Send,
        R: Send,
        F: Fn(T) -> R + Sync + Send;

    /// Returns a buffer of unspecified length and content: one that the current
    /// thread has passed to [`Engine::recycle`], if the engine has retained
    /// one, or a new one. Reusing a buffer saves a job the cost of allocating
    /// and zeroing a temporary buffer.
    fn recycled(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Accepts a buffer that the caller no longer needs.
    fn recycle(&self, _buffer: Vec<u8>) {}

    /// Runs both closures, concurrently if a thread is idle.
    fn join<A, B>(&self, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B)
    where
        A: Send,
        B: Send,
    {
        (a(), b())
    }

    /// Runs both closures like [`Engine::join`], unless they work on too few
    /// bytes each (`len_bytes`): a short job finishes before another thread
    /// wakes up.
    fn join_over<A, B>(
        &self,
        len_bytes: usize,
        a: impl FnOnce() -> A + Send,
        b: impl FnOnce() -> B + Send,
    ) -> (A, B)
    where
        A: Send,
        B: Send,
    {
        const MIN_BYTES: usize = 1 << 20;
        if len_bytes < MIN_BYTES {
            (a(), b())
        } else {
            self.join(a, b)
        }
    }
}

/// The services that encoding requires in addition.
pub trait PackEngine: Engine {
    /// Appends one zstd frame of `input` to `out`. The frame has a content
    /// size, no checksum, no dictionary, and a window of at most 2^27 bytes.
    ///
    /// The output depends only on `input` and `coding`.
    fn zstd_encode(&self, input: &[u8], coding: ZstdCoding, out: &mut Vec<u8>);
}

/// How a zstd frame is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZstdCoding {
    /// Codes the literals with Huffman tables and searches for no matches. This
    /// is smallest and fastest where bytes are skewed but independent, as
    /// exponents are.
    Huffman,
    /// Runs the ordinary search of this compression level.
    Search(i32),
    /// Runs the search of this compression level together with a search for
    /// matches of up to 128 MiB back. An engine without the latter runs the
    /// former alone.
    Long(i32),
}
