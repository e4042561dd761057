//! The seam: the two things the core calls out for, zstd and running
//! independent jobs.
//!
//! The native packer plugs in C zstd and a thread pool; WebAssembly plugs in
//! [`Pure`](crate::pure::Pure). An engine has no format knowledge: what a zstd frame may look like
//! is decided in [`crate::entropy::zstd`], so that every engine accepts and
//! refuses the same files.

use alloc::string::String;
use alloc::vec::Vec;

/// The services that decoding needs from outside.
pub trait Engine: Sync {
    /// Decodes one zstd frame that fills `frame` into the whole of `out`.
    /// Anything but exactly `out.len()` bytes is an error; the text says why.
    fn zstd_decode(&self, frame: &[u8], out: &mut [u8]) -> Result<(), String>;

    /// Runs `job` once for every item, in any order or at once, and returns
    /// the results in the order of the items.
    fn map<T, R, F>(&self, items: Vec<T>, job: F) -> Vec<R>
    where
        T: Send,
        R: Send,
        F: Fn(T) -> R + Sync + Send;

    /// Returns a buffer of any length and content: one that this thread gave to
    /// [`Engine::recycle`], if the engine keeps some. What a job needs for a
    /// moment is then neither allocated nor filled with zeros again.
    fn recycled(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Takes a buffer that is no longer needed.
    fn recycle(&self, _buffer: Vec<u8>) {}

    /// Runs both, at once where a thread is free.
    fn join<A, B>(&self, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B)
    where
        A: Send,
        B: Send,
    {
        (a(), b())
    }

    /// Runs both like [`Engine::join`], for work on `len_bytes` bytes each: a
    /// little work is done before a thread wakes up.
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

/// The services that encoding needs in addition.
pub trait PackEngine: Engine {
    /// Appends one zstd frame of `input` to `out`: content size present, no
    /// checksum, no dictionary, window at most 2^27.
    ///
    /// The bytes depend on `input` and `coding` alone.
    fn zstd_encode(&self, input: &[u8], coding: ZstdCoding, out: &mut Vec<u8>);
}

/// How a zstd frame is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZstdCoding {
    /// Literals coded by Huffman tables alone, no search for matches: best
    /// and fastest where bytes are skewed but independent, such as exponents.
    Huffman,
    /// The ordinary search of this compression level.
    Search(i32),
    /// A search at this level together with one for matches of up to 128 MiB
    /// back. An engine without the latter does the former alone.
    Long(i32),
}
