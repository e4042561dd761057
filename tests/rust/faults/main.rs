//! Runs every verb (subcommand) of the command line under every fault in
//! `tests/faults/verbs.json`, and checks the exit status, the message, the inputs, the
//! outputs and leftover files.
//!
//! All of these tests are in one program so that they share the results of undisturbed
//! runs.

#![cfg(target_os = "linux")]

mod every_verb;
mod inject;
mod judge;
mod process;
mod scratch;
mod signals;
mod verb_table;

/// Runs `work` on every item, two at a time and in no particular order. Returns the
/// problems.
fn each<T: Sync>(items: &[T], work: impl Fn(&T) -> Option<String> + Sync) -> Vec<String> {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    let (next, problems) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    problems.lock().unwrap().extend(work(item));
                }
            });
        }
    });
    problems.into_inner().unwrap()
}
