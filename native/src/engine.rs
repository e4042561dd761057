//! The native engine: C zstd and a thread pool.

use std::cell::RefCell;

use rayon::ThreadPool;
use rayon::prelude::*;
use zstd::zstd_safe::{self, CCtx, CParameter, DCtx};
use zstn_core::engine::{Engine, PackEngine, ZstdCoding, decode_flat, encode_literals};
use zstn_core::limits::ZSTD_WINDOW_BYTES;

use crate::{Error, Result};

/// C zstd for the streams, rayon for the jobs. Cheap to share, costs threads
/// to make: keep one.
#[derive(Debug)]
pub struct Native {
    pool: ThreadPool,
}

impl Native {
    /// An engine with that many threads; 0 means one per core.
    pub fn new(threads: usize) -> Result<Self> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|number| format!("zstn-{number}"))
            .build()
            .map_err(|error| Error::io("start threads", std::io::Error::other(error)))?;
        Ok(Self { pool })
    }

    /// Number of threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }
}

thread_local! {
    // Contexts hold the tables of a compression level, megabytes at the
    // higher ones; making one per block would cost more than the block.
    static COMPRESS: RefCell<CCtx<'static>> = RefCell::new(CCtx::create());
    static DECOMPRESS: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

/// Longest input after which a context is kept. It grows with its inputs and
/// with them only; after long ones a new one costs little.
const KEPT_FOR_BYTES: usize = 1 << 20;

impl Engine for Native {
    fn join<A, B>(&self, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B)
    where
        A: Send,
        B: Send,
    {
        self.pool.join(a, b)
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

    fn map<T, R, F>(&self, items: Vec<T>, job: F) -> Vec<R>
    where
        T: Send,
        R: Send,
        F: Fn(T) -> R + Sync + Send,
    {
        if items.len() < 2 {
            return items.into_iter().map(job).collect();
        }
        self.pool
            // One item at a time: they differ in length by orders of magnitude.
            .install(|| items.into_par_iter().with_max_len(1).map(job).collect())
    }
}

impl PackEngine for Native {
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
