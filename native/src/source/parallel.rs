//! Runs several requests at the same time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::Result;

/// The maximum number of simultaneous requests of one call for a file. Browsers allow
/// six; more requests rarely make a download faster.
pub(crate) const READS_AT_ONCE: usize = 8;

/// The maximum number of files that are opened at the same time. Opening a file
/// consists of a few small requests, so nearly all of its time is spent waiting; a
/// checkpoint has a few hundred files at most.
pub(crate) const FILES_AT_ONCE: usize = 128;

/// Runs `work` for every number below `count`, at most `max_at_once` at the same time,
/// and returns the results in order. The calling thread takes part, and the other
/// threads end with the call. Threads of an engine are not used, because they could not
/// decode while they wait for a server.
///
/// # Errors
/// The error of the smallest number that failed. No work begins after an error.
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
            // If another thread cannot be started, the running ones do the work.
            if thread.spawn_scoped(scope, take).is_err() {
                break;
            }
        }
        take();
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Numbers are taken in order, so every result before the first error exists.
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Returns the number of sources to use at the same time: `max_at_once` if several of
/// them are remote, otherwise one. Local sources do not wait for another machine.
pub(crate) fn at_once(are_remote: impl IntoIterator<Item = bool>, max_at_once: usize) -> usize {
    let remote = are_remote.into_iter().filter(|is_remote| *is_remote);
    match remote.count() {
        0 | 1 => 1,
        _ => max_at_once,
    }
}
