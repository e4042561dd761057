//! Works on several files at the same time, and reports the outcomes in order.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;

/// Runs `work` for all `items`, at most `at_once` at the same time. Calls `next` on this
/// thread with each item and its outcome, in the order of the items. `work` makes requests
/// and waits for the threads of an engine, so it has threads of its own.
///
/// # Errors
/// The first error of `next`. Work that has begun is completed, no other work begins, and
/// later outcomes are dropped.
pub(super) fn in_order<'i, I: Sync, T: Send, E>(
    items: &'i [I],
    at_once: usize,
    work: impl Fn(&'i I) -> T + Sync,
    mut next: impl FnMut(&'i I, T) -> Result<(), E>,
) -> Result<(), E> {
    let threads = at_once.min(items.len());
    if threads <= 1 {
        return items.iter().try_for_each(|item| next(item, work(item)));
    }
    let (taken, is_ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    let take = |sender: &mpsc::Sender<_>| {
        while !is_ended.load(Relaxed) {
            let number = taken.fetch_add(1, Relaxed);
            let Some(item) = items.get(number) else {
                return;
            };
            let done = catch_unwind(AssertUnwindSafe(|| work(item)));
            // The receiver exists until all threads have ended.
            let _ = sender.send((number, done));
        }
    };
    thread::scope(|scope| {
        let (sender, outcomes) = mpsc::channel();
        let mut started = 0;
        for _ in 0..threads {
            let (sender, take) = (sender.clone(), &take);
            let thread = thread::Builder::new().name("zstn-file".into());
            let thread = thread.spawn_scoped(scope, move || take(&sender));
            started += usize::from(thread.is_ok());
        }
        // If the system refuses threads, this one does the work.
        if started == 0 {
            take(&sender);
        }
        drop(sender);
        let (mut early, mut passed, mut failure) = (BTreeMap::new(), 0, None);
        for (number, done) in outcomes {
            early.insert(number, done);
            while let Some(done) = early.remove(&passed) {
                let item = &items[passed];
                passed += 1;
                let done = done.unwrap_or_else(|payload| {
                    is_ended.store(true, Relaxed);
                    resume_unwind(payload)
                });
                if failure.is_none()
                    && let Err(error) = next(item, done)
                {
                    is_ended.store(true, Relaxed);
                    failure = Some(error);
                }
            }
        }
        failure.map_or(Ok(()), Err)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn outcomes_come_in_order_until_the_first_error() {
        let items: Vec<u64> = (0..10).collect();
        let work = |&number: &u64| {
            // Early numbers take longest.
            thread::sleep(Duration::from_millis(2 * (10 - number)));
            number
        };
        for at_once in [1, 3, 20] {
            let mut seen = Vec::new();
            let all: Result<(), ()> = in_order(&items, at_once, work, |&item, outcome| {
                seen.push((item, outcome));
                Ok(())
            });
            assert_eq!((all, seen), (Ok(()), (0..10).map(|n| (n, n)).collect()));
            let failed = in_order(&items, at_once, work, |_, outcome| match outcome {
                0..4 => Ok(()),
                other => Err(other),
            });
            assert_eq!(failed, Err(4));
        }
    }
}
