//! The native engine: C zstd and a thread pool.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use rayon::ThreadPool;
use rayon::prelude::*;
use zstd::zstd_safe::{self, CCtx, CParameter, DCtx};
use zstn_core::engine::{self as core_engine, ZstdCoding};
use zstn_core::entropy::zstd::{decode_flat, encode_literals};
use zstn_core::limits::ZSTD_WINDOW_BYTES;

use crate::{Error, Result};

/// A handle to a thread pool that codes and decodes with C zstd.
///
/// A clone is another handle to the same threads, which end with the last
/// handle. A program needs one engine: [`Reader`](crate::Reader)s, conversions
/// and servers that share it never run more threads than it has.
///
/// ```
/// # fn main() -> zstn::Result<()> {
/// use zstn::Engine;
///
/// let engine = Engine::new(2)?;
/// assert_eq!(engine.threads(), 2);
/// assert!(engine.clone().shares_threads_with(&engine));
///
/// // The engine that readers use by default, one for the whole process.
/// assert!(Engine::default().shares_threads_with(&Engine::default()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Engine {
    /// `None` works on the calling thread.
    pool: Option<Arc<ThreadPool>>,
}

impl Engine {
    /// The most threads that an engine can have.
    pub const MAX_THREADS: usize = 1024;

    /// Starts `threads` threads; 0 means one per core.
    ///
    /// # Errors
    /// [`Error::Usage`] for more than [`Engine::MAX_THREADS`]; if the system refuses a
    /// thread.
    pub fn new(threads: usize) -> Result<Self> {
        if threads > Self::MAX_THREADS {
            return Err(Error::Usage(format!(
                "{threads} threads are too many: give 1 to {}, or 0 for one per core",
                Self::MAX_THREADS
            )));
        }
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|number| format!("zstn-{number}"))
            .build()
            .map_err(|error| Error::io("start threads", std::io::Error::other(error)))?;
        Ok(Self {
            pool: Some(Arc::new(pool)),
        })
    }

    /// Returns the number of threads that work at the same time.
    #[must_use]
    pub fn threads(&self) -> usize {
        match &self.pool {
            Some(pool) => pool.current_num_threads(),
            None => 1,
        }
    }

    /// Returns whether both are handles to the same threads.
    #[must_use]
    pub fn shares_threads_with(&self, other: &Self) -> bool {
        match (&self.pool, &other.pool) {
            (Some(pool), Some(other)) => Arc::ptr_eq(pool, other),
            _ => false,
        }
    }
}

impl Default for Engine {
    /// Returns a handle to the engine of this process, which has a thread per
    /// core and is started on the first call. Where the system refuses these
    /// threads, the engine works on the thread that calls it.
    fn default() -> Self {
        static OF_PROCESS: OnceLock<Engine> = OnceLock::new();
        let engine = OF_PROCESS.get_or_init(|| Self::new(0).unwrap_or(Self { pool: None }));
        engine.clone()
    }
}

thread_local! {
    // Contexts hold the tables of a compression level, megabytes at the
    // higher ones; making one per block would cost more than the block.
    static COMPRESS: RefCell<CCtx<'static>> = RefCell::new(CCtx::create());
    static DECOMPRESS: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Buffers that a thread keeps, each as long as a block. More would be faster and
/// would count against the memory that callers allow, by every thread's.
const KEPT_BUFFERS: usize = 1;
const KEPT_BUFFER_BYTES: usize = 256 << 10;

/// Longest input after which a context is kept. It grows with its inputs and
/// with them only; after long ones a new one costs little.
const KEPT_FOR_BYTES: usize = 1 << 20;

impl core_engine::Engine for Engine {
    fn join<A, B>(&self, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B)
    where
        A: Send,
        B: Send,
    {
        match &self.pool {
            Some(pool) => pool.join(a, b),
            None => (a(), b()),
        }
    }

    fn zstd_decode(&self, frame: &[u8], out: &mut [u8]) -> Result<(), String> {
        if let Some(decoded) = decode_flat(frame, out) {
            return decoded;
        }
        let expected = out.len();
        let len = DECOMPRESS
            .with_borrow_mut(|context| context.decompress(out, frame))
            .map_err(zstd_safe::get_error_name)?;
        if len != expected {
            return Err(format!("{len} bytes instead of {expected}"));
        }
        Ok(())
    }

    fn recycled(&self) -> Vec<u8> {
        BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_default()
    }

    fn recycle(&self, buffer: Vec<u8>) {
        BUFFERS.with_borrow_mut(|kept| {
            if !buffer.is_empty()
                && buffer.capacity() <= KEPT_BUFFER_BYTES
                && kept.len() < KEPT_BUFFERS
            {
                kept.push(buffer);
            }
        });
    }

    fn map<T, R, F>(&self, items: Vec<T>, job: F) -> Vec<R>
    where
        T: Send,
        R: Send,
        F: Fn(T) -> R + Sync + Send,
    {
        match &self.pool {
            Some(pool) if items.len() > 1 => {
                // One item at a time: they differ in length by orders of magnitude.
                pool.install(|| items.into_par_iter().with_max_len(1).map(job).collect())
            }
            _ => items.into_iter().map(job).collect(),
        }
    }
}

impl core_engine::PackEngine for Engine {
    fn zstd_encode(&self, input: &[u8], coding: ZstdCoding, out: &mut Vec<u8>) {
        let (level, is_long) = match coding {
            ZstdCoding::Huffman => return encode_literals(input, out),
            ZstdCoding::Search(level) => (level, false),
            ZstdCoding::Long(level) => (level, true),
        };
        let start = out.len();
        out.reserve_exact(zstd_safe::compress_bound(input.len()));
        out.resize(start + zstd_safe::compress_bound(input.len()), 0);
        let len = COMPRESS.with_borrow_mut(|context| {
            let set = |context: &mut CCtx, parameter| {
                context
                    .set_parameter(parameter)
                    .expect("zstd knows this parameter");
            };
            set(context, CParameter::CompressionLevel(level));
            set(context, CParameter::EnableLongDistanceMatching(is_long));
            set(
                context,
                CParameter::WindowLog(window_log(input.len(), is_long)),
            );
            context
                .compress2(&mut out[start..], input)
                .inspect(|_| {
                    if input.len() > KEPT_FOR_BYTES {
                        *context = CCtx::create();
                    }
                })
                .expect("zstd has all the room it can need")
        });
        out.truncate(start + len);
        // Many blocks may wait to be written.
        out.shrink_to_fit();
    }
}

/// 0 is the window of the level itself. It may not be over what readers take,
/// and for long matches has to reach all the way back.
fn window_log(len: usize, is_long: bool) -> u32 {
    if is_long || len as u64 > ZSTD_WINDOW_BYTES {
        len.next_power_of_two()
            .ilog2()
            .clamp(17, ZSTD_WINDOW_BYTES.ilog2())
    } else {
        0
    }
}
