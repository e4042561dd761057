//! Requests that are under way at the same time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::Result;

/// The largest number of requests that one call has under way for a file.
/// Browsers allow six; more rarely make a download faster.
pub(crate) const READS_AT_ONCE: usize = 8;

/// The largest number of files that are opened at the same time. Opening a file
/// consists of a few small requests, so nearly all of its time is spent waiting;
/// a checkpoint has a few hundred files at most.
pub(crate) const FILES_AT_ONCE: usize = 128;

/// Runs `work` for every number below `count`, at most `max_at_once` at a time,
/// and returns the results in order. The caller's thread takes part, and the
/// others end with the call. Threads of an engine are not used: one that waits
/// for a server could not decode.
///
/// # Errors
/// The error of the first number that has one. No work begins after an error.
pub(crate) fn run<T: Send>(
    count: usize,
    max_at_once: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let threads = max_at_once.min(count);
    if threads <= 1 {
        return (0..count).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let has_failed = AtomicBool::new(false);
    let results = Mutex::new(Vec::with_capacity(count));
    let take = || {
        while !has_failed.load(Relaxed) {
            let number = next.fetch_add(1, Relaxed);
            if number >= count {
                return;
            }
            let result = work(number);
            if result.is_err() {
                has_failed.store(true, Relaxed);
            }
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            results.push((number, result));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            let thread = thread::Builder::new().name("zstn-source".into());
            // If no more threads can be started, those that run do the work.
            if thread.spawn_scoped(scope, take).is_err() {
                break;
            }
        }
        take();
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Numbers are taken in order: everything before the first error is there.
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Returns how many sources to use at the same time: `max_at_once` if several of
/// them are remote, one otherwise. Local sources do not wait.
pub(crate) fn at_once(are_remote: impl IntoIterator<Item = bool>, max_at_once: usize) -> usize {
    let remote = are_remote.into_iter().filter(|is_remote| *is_remote);
    match remote.count() {
        0 | 1 => 1,
        _ => max_at_once,
    }
}
