//! Work on many items at the same time, whose results are consumed in order.

use std::any::Any;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver};

use crate::{Error, Job, Result};

/// The maximum length in bytes and the maximum number of small items that one thread
/// processes as a group. Waking a thread takes longer than processing a small item.
const GROUP_BYTES: u64 = 256 << 10;
const GROUP_ITEMS: usize = 64;

/// The maximum memory for items that have been begun and whose results have not been
/// consumed. One item that costs more is processed alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    max_bytes: u64,
}

impl Budget {
    /// Returns a budget of `max_bytes`.
    pub(crate) fn of_bytes(max_bytes: u64) -> Self {
        Self { max_bytes }
    }

    /// Returns the limit in bytes.
    pub(crate) fn max_bytes(self) -> u64 {
        self.max_bytes
    }

    /// Returns a budget of at most `max_bytes`, which is no larger than necessary to
    /// keep all threads busy while a result is consumed. The largest item costs
    /// `largest_bytes`.
    pub(crate) fn for_threads(job: &Job, largest_bytes: u64, max_bytes: u64) -> Self {
        /// The minimum budget, unless `max_bytes` is smaller. It is enough for many
        /// small items.
        const MIN_BYTES: u64 = 8 << 20;
        let threads = job.engine.threads() as u64;
        let items = threads + (threads / 4).max(1);
        let enough_bytes = largest_bytes.saturating_mul(items).max(MIN_BYTES);
        Self::of_bytes(enough_bytes.min(max_bytes))
    }
}

/// Runs `work` for all `items` on the threads of the engine, and passes the results in
/// the order of the items to `next` on this thread. The next items begin as soon as
/// `budget` has room for their costs in bytes; an item's cost is released when `next`
/// returns. When an item begins, `begin` prepares it on this thread, in the order of the
/// items.
///
/// # Errors
/// The error of the first item that fails, in the order of the items. Items after it may
/// have been processed, but their results are dropped.
pub(crate) fn in_order<P, T: Send, R: Send>(
    job: &Job,
    items: impl IntoIterator<Item = (P, u64)>,
    budget: Budget,
    begin: impl FnMut(P) -> Result<T>,
    work: impl Fn(&T) -> Result<R> + Sync,
    mut next: impl FnMut(T, R) -> Result<()>,
) -> Result<()> {
    let mut groups = Groups {
        items: items.into_iter().peekable(),
        begin,
        failure: None,
    };
    let work_on = |group: Vec<T>| {
        let results = group.into_iter().map(|item| {
            job.ensure_running()?;
            let result = work(&item)?;
            Ok((item, result))
        });
        Results::of(results)
    };
    // A thread of the engine must not wait for other items, which may need this thread.
    let Some(pool) = job.engine.other_threads() else {
        while let Some(group) = groups.next() {
            work_on(group.items).consume(&mut next)?;
        }
        return groups.finish();
    };
    let is_ended = AtomicBool::new(false);
    pool.in_place_scope(|scope| {
        let _end = EndOnDrop(&is_ended);
        let (sender, results) = mpsc::channel();
        let mut flow = Flow {
            results,
            ready: BTreeMap::new(),
            begun: 0,
            consumed: 0,
            held_bytes: 0,
        };
        loop {
            flow.consume(&mut next)?;
            match groups.peek_bytes() {
                None if flow.is_idle() => return groups.finish(),
                Some(bytes) if flow.has_room(bytes, budget) => {
                    let Some(group) = groups.next() else { continue };
                    let number = flow.begin(group.bytes);
                    // If there is only one group, this thread processes it.
                    if number == 0 && groups.peek_bytes().is_none() {
                        work_on(group.items).consume(&mut next)?;
                        return groups.finish();
                    }
                    let (sender, is_ended, work_on) = (sender.clone(), &is_ended, &work_on);
                    scope.spawn(move |_| {
                        if is_ended.load(Relaxed) {
                            return;
                        }
                        let done = catch_unwind(AssertUnwindSafe(|| work_on(group.items)));
                        // After an error, the receiver no longer exists.
                        let _ = sender.send((number, group.bytes, done));
                    });
                }
                _ => flow.wait(&mut next)?,
            }
        }
    })
}

/// Like [`in_order`], for work without a result.
pub(crate) fn for_each<T: Send>(
    job: &Job,
    items: impl IntoIterator<Item = (T, u64)>,
    budget: Budget,
    work: impl Fn(&T) -> Result<()> + Sync,
) -> Result<()> {
    in_order(job, items, budget, Ok, work, |_, ()| Ok(()))
}

/// Items that are processed by one thread.
struct Group<T> {
    items: Vec<T>,
    bytes: u64,
}

/// Divides items into groups, and begins them.
struct Groups<I: Iterator, B> {
    items: Peekable<I>,
    begin: B,
    /// The error that ended the items.
    failure: Option<Error>,
}

impl<P, T, I: Iterator<Item = (P, u64)>, B: FnMut(P) -> Result<T>> Groups<I, B> {
    /// Returns the cost of the first item of the next group; `None` at the end.
    fn peek_bytes(&mut self) -> Option<u64> {
        match self.failure {
            Some(_) => None,
            None => self.items.peek().map(|(_, bytes)| *bytes),
        }
    }

    /// Begins the next group. Returns `None` if there is no other group, or if its first
    /// item fails.
    fn next(&mut self) -> Option<Group<T>> {
        let mut group = Group {
            items: Vec::new(),
            bytes: 0,
        };
        while let Some(bytes) = self.peek_bytes()
            && (group.items.is_empty() || group.has_room(bytes))
            && let Some((item, _)) = self.items.next()
        {
            match (self.begin)(item) {
                Ok(item) => {
                    group.items.push(item);
                    group.bytes = group.bytes.saturating_add(bytes);
                }
                Err(error) => self.failure = Some(error),
            }
        }
        (!group.items.is_empty()).then_some(group)
    }

    /// Returns the error that ended the items, if there was one.
    fn finish(self) -> Result<()> {
        self.failure.map_or(Ok(()), Err)
    }
}

impl<T> Group<T> {
    fn has_room(&self, bytes: u64) -> bool {
        self.items.len() < GROUP_ITEMS && self.bytes.saturating_add(bytes) <= GROUP_BYTES
    }
}

/// The results of a group, up to the first error.
struct Results<T, R> {
    results: Vec<(T, R)>,
    failure: Option<Error>,
}

impl<T, R> Results<T, R> {
    fn of(results: impl Iterator<Item = Result<(T, R)>>) -> Self {
        let mut failure = None;
        let results =
            results.map_while(|result| result.map_err(|error| failure = Some(error)).ok());
        Self {
            results: results.collect(),
            failure,
        }
    }

    fn consume(self, next: &mut impl FnMut(T, R) -> Result<()>) -> Result<()> {
        let mut results = self.results.into_iter();
        results.try_for_each(|(item, result)| next(item, result))?;
        self.failure.map_or(Ok(()), Err)
    }
}

/// The message that a thread sends: the number and the cost of a group, and the group's
/// results or a panic.
type Done<T, R> = (usize, u64, Result<Results<T, R>, Box<dyn Any + Send>>);

/// The groups that have begun and whose results have not all been consumed.
struct Flow<T, R> {
    results: Receiver<Done<T, R>>,
    /// Results that wait for the results of earlier groups, with the costs of the groups.
    ready: BTreeMap<usize, (u64, Results<T, R>)>,
    begun: usize,
    consumed: usize,
    held_bytes: u64,
}

impl<T, R> Flow<T, R> {
    fn is_idle(&self) -> bool {
        self.begun == self.consumed
    }

    fn has_room(&self, bytes: u64, budget: Budget) -> bool {
        self.is_idle() || self.held_bytes.saturating_add(bytes) <= budget.max_bytes
    }

    /// Counts a group that begins, and returns its number.
    fn begin(&mut self, bytes: u64) -> usize {
        self.held_bytes = self.held_bytes.saturating_add(bytes);
        self.begun += 1;
        self.begun - 1
    }

    /// Consumes all results that have arrived and are next in order.
    fn consume(&mut self, next: &mut impl FnMut(T, R) -> Result<()>) -> Result<()> {
        loop {
            while let Ok(done) = self.results.try_recv() {
                self.receive(done);
            }
            let Some((bytes, results)) = self.ready.remove(&self.consumed) else {
                return Ok(());
            };
            results.consume(next)?;
            self.held_bytes -= bytes;
            self.consumed += 1;
        }
    }

    /// Waits for one more group, and consumes the results that are next in order.
    fn wait(&mut self, next: &mut impl FnMut(T, R) -> Result<()>) -> Result<()> {
        // The sender in the scope is open, so this cannot fail.
        if let Ok(done) = self.results.recv() {
            self.receive(done);
        }
        self.consume(next)
    }

    fn receive(&mut self, (number, bytes, done): Done<T, R>) {
        match done {
            Ok(results) => {
                self.ready.insert(number, (bytes, results));
            }
            Err(payload) => resume_unwind(payload),
        }
    }
}

/// When it is dropped, makes the threads skip all groups that they have not begun.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
