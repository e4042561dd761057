//! Reading over HTTP, and the servers `zstn serve`, `zstn view`, `zstn gateway` and
//! `zstn worker`.

use std::thread;
use std::time::{Duration, Instant};

use zstn::{CancelToken, Result};

mod async_reader;
mod async_selection;
mod changing_validators;
mod faults;
mod gateway;
mod hub;
mod options;
mod packing;
mod put;
mod ranges;
mod reading;
mod refusals;
mod round_trips;
mod secrets;
mod serve;
mod unpacking;
mod worker;

/// Runs `work` on another thread, and cancels it a tenth of a second after `has_begun`.
/// Returns its result, and the time that it took to end.
fn cancelled<T: Send>(
    token: &CancelToken,
    has_begun: impl Fn() -> bool,
    work: impl FnOnce() -> Result<T> + Send,
) -> (Result<T>, Duration) {
    thread::scope(|scope| {
        let working = scope.spawn(|| (work(), Instant::now()));
        while !has_begun() {
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(Duration::from_millis(100));
        let cancelled = Instant::now();
        token.cancel();
        let (result, ended) = working.join().expect("the work does not panic");
        (result, ended - cancelled)
    })
}
