//! The native engine: C zstd and a thread pool.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use rayon::ThreadPool;
use rayon::prelude::*;
use zstd::zstd_safe::{self, CCtx, CParameter, DCtx};
use zstn_core::engine::{self as core_engine, ZstdCoding};
use zstn_core::entropy::zstd::{decode_fast, encode_literals};
use zstn_core::limits::ZSTD_WINDOW_BYTES;

use crate::{CancelToken, Error, Result};

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
    threads: Threads,
    /// Ends work on this handle by unwinding ([`Engine::ended_by`]).
    cancel_token: CancelToken,
}

#[derive(Debug, Clone)]
enum Threads {
    /// The threads of the process, which the first use starts.
    OfProcess,
    Own(Arc<ThreadPool>),
}

impl Engine {
    /// Starts `threads` threads; 0 means one per core.
    ///
    /// # Errors
    /// [`Error::Usage`] for more threads than [`Engine::max_threads`]; an I/O error
    /// if the system refuses a thread.
    pub fn new(threads: usize) -> Result<Self> {
        Self::check_threads(i128::try_from(threads).unwrap_or(i128::MAX))?;
        Ok(Self {
            threads: Threads::Own(Arc::new(start(threads)?)),
            cancel_token: CancelToken::new(),
        })
    }

    /// Returns the engine of the process like [`Engine::default`], but the first use
    /// starts its threads.
    pub(crate) fn of_process() -> Self {
        Self {
            threads: Threads::OfProcess,
            cancel_token: CancelToken::new(),
        }
    }

    /// Returns a handle whose work ends once `token` is cancelled: before it begins
    /// another item, it unwinds to [`Job::run`](crate::Job::run).
    pub(crate) fn ended_by(mut self, token: &CancelToken) -> Self {
        self.cancel_token = token.clone();
        self
    }

    /// Returns the threads; `None` if all work runs on the calling thread, because the
    /// system has refused to start the threads of the process.
    fn pool(&self) -> Option<&ThreadPool> {
        static OF_PROCESS: OnceLock<Option<ThreadPool>> = OnceLock::new();
        match &self.threads {
            Threads::Own(pool) => Some(pool),
            Threads::OfProcess => OF_PROCESS.get_or_init(|| start(0).ok()).as_ref(),
        }
    }

    /// Returns the thread pool, unless there is none or the calling thread belongs to
    /// it.
    pub(crate) fn other_threads(&self) -> Option<&ThreadPool> {
        let is_other = |pool: &&ThreadPool| pool.current_thread_index().is_none();
        self.pool().filter(is_other)
    }

    /// Returns the largest number of threads that an engine can have on this machine:
    /// eight per core, or 16 if that is more. More threads than cores do not make
    /// anything faster, and thousands of threads keep a machine from making progress.
    #[must_use]
    pub fn max_threads() -> usize {
        cores().saturating_mul(MAX_THREADS_PER_CORE).max(MIN_LIMIT)
    }

    /// Checks a number of threads that a person or a program requested, and returns it
    /// for [`Engine::new`].
    ///
    /// # Errors
    /// [`Error::Usage`] for a negative number, and for more than
    /// [`Engine::max_threads`].
    pub fn check_threads(threads: i128) -> Result<usize> {
        let most = Self::max_threads();
        match usize::try_from(threads) {
            Ok(threads) if threads <= most => Ok(threads),
            _ if threads < 0 => Err(Error::Usage(
                "the number of threads is negative; give 0 for one per core".into(),
            )),
            _ => Err(Error::Usage(format!(
                "too many threads: at most {most} can be started on this machine, which has \
                 {}; give 0 for one per core",
                match cores() {
                    1 => "1 core".into(),
                    cores => format!("{cores} cores"),
                }
            ))),
        }
    }

    /// Returns the number of threads that work at the same time.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.pool().map_or(1, ThreadPool::current_num_threads)
    }

    /// Returns whether both are handles to the same threads.
    #[must_use]
    pub fn shares_threads_with(&self, other: &Self) -> bool {
        match (self.pool(), other.pool()) {
            (Some(pool), Some(other)) => std::ptr::eq(pool, other),
            _ => false,
        }
    }
}

/// Starts a pool of `threads` threads; 0 means one per core.
fn start(threads: usize) -> Result<ThreadPool> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|number| format!("zstn-{number}"))
        .build()
        .map_err(|error| Error::io("start threads", std::io::Error::other(error)))
}

#[cfg(feature = "async")]
impl Engine {
    /// Begins `work` on one of the threads. If there are none, runs it on this one.
    pub(crate) fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        match self.pool() {
            Some(pool) => pool.spawn(work),
            None => work(),
        }
    }
}

/// The largest number of threads of an engine, for each core of the machine.
const MAX_THREADS_PER_CORE: usize = 8;
/// The lower bound of [`Engine::max_threads`], for machines with few cores.
const MIN_LIMIT: usize = 16;

/// Returns the number of cores that this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

impl Default for Engine {
    /// Returns a handle to the engine of this process, which has a thread per
    /// core and is started on the first call. Where the system refuses these
    /// threads, the engine works on the thread that calls it.
    fn default() -> Self {
        let engine = Self::of_process();
        engine.pool();
        engine
    }
}

thread_local! {
    // A context holds the tables of a compression level, which take megabytes at the
    // higher levels. Creating a context for each block would cost more than the block.
    static COMPRESS: RefCell<CCtx<'static>> = RefCell::new(CCtx::create());
    static DECOMPRESS: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// The number of buffers that a thread retains, each up to the length of a block.
/// Retaining more would be faster, but every thread's buffers count against the memory
/// that callers allow.
const KEPT_BUFFERS: usize = 1;
const KEPT_BUFFER_BYTES: usize = 256 << 10;

/// The longest input after which a context is retained. A context grows to the size of
/// its inputs; after a long input, creating a new context costs comparatively little.
const KEPT_FOR_BYTES: usize = 1 << 20;

impl core_engine::Engine for Engine {
    fn join<A, B>(&self, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B)
    where
        A: Send,
        B: Send,
    {
        self.cancel_token.unwind_if_cancelled();
        match self.pool() {
            Some(pool) => pool.join(a, b),
            None => (a(), b()),
        }
    }

    fn zstd_decode(&self, frame: &[u8], out: &mut [u8]) -> Result<(), String> {
        if let Some(decoded) = decode_fast(frame, out) {
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
        let job = |item| {
            self.cancel_token.unwind_if_cancelled();
            job(item)
        };
        match self.pool() {
            Some(pool) if items.len() > 1 => {
                // Each item is scheduled separately, because lengths differ by orders
                // of magnitude.
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
        // Many blocks may wait to be written, so their unused capacity is returned.
        out.shrink_to_fit();
    }
}

/// Returns zstd's window log; 0 selects the default of the compression level. The
/// window never exceeds the limit that readers accept; for long-distance matching, it
/// covers the whole input up to that limit.
fn window_log(len: usize, is_long: bool) -> u32 {
    if is_long || len as u64 > ZSTD_WINDOW_BYTES {
        len.next_power_of_two()
            .ilog2()
            .clamp(17, ZSTD_WINDOW_BYTES.ilog2())
    } else {
        0
    }
}
