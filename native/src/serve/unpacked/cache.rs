//! Decoded tensors, kept for the next range of them.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, watch};

/// A tensor of a file: number of the file, number in it.
pub(super) type Key = (u64, usize);

/// The bytes, or why there are none.
type Outcome = Result<Arc<Vec<u8>>, String>;

/// Tells all who wait, once.
type Sender = watch::Sender<Option<Outcome>>;
type Receiver = watch::Receiver<Option<Outcome>>;

/// Decodes tensors when they are asked for, off the threads that answer, as
/// many at a time as there are processors; those asked for at the same time
/// share the work. Up to a limit those that nobody uses now are kept, the one
/// used last always: a large one is mostly read range by range.
pub(super) struct DecodedTensors {
    limit_bytes: u64,
    turns: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: HashMap<Key, Entry>,
    /// Decoded ones that nobody uses, by when they were used last.
    idle: BTreeMap<u64, Key>,
    held_bytes: u64,
    uses: u64,
    last: Option<Key>,
}

struct Entry {
    len_bytes: u64,
    phase: Phase,
    users: usize,
    used_at: u64,
    outcome: Receiver,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    Decoding,
    Decoded,
    Failed,
}

/// A tensor in use. While it is, it stays.
pub(super) struct Lease {
    cache: Arc<DecodedTensors>,
    key: Key,
    bytes: Arc<Vec<u8>>,
}

impl AsRef<[u8]> for Lease {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.cache.release(self.key);
    }
}

impl DecodedTensors {
    pub(super) fn new(limit_bytes: u64) -> Self {
        let turns = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            limit_bytes,
            turns: Arc::new(Semaphore::new(turns)),
            state: Mutex::default(),
        }
    }

    /// The tensor `key` of `len_bytes`, by `decode` if it is not there. A
    /// failure is that of all who wait for it, and is not kept.
    pub(super) async fn get(
        self: &Arc<Self>,
        key: Key,
        len_bytes: u64,
        decode: impl FnOnce() -> Result<Vec<u8>, String> + Send + 'static,
    ) -> Result<Lease, String> {
        let (mut lease, mut outcome, sender) = self.enter(key, len_bytes);
        if let Some(sender) = sender {
            tokio::spawn(Arc::clone(self).fill(key, sender, decode));
        }
        let outcome = outcome.wait_for(Option::is_some).await;
        let outcome = outcome.map_or(None, |outcome| outcome.clone());
        lease.bytes = outcome.unwrap_or_else(|| Err("decoding was given up".into()))?;
        Ok(lease)
    }

    /// Counts one more user of the tensor; the sender is for who has to fill
    /// a new entry.
    fn enter(self: &Arc<Self>, key: Key, len_bytes: u64) -> (Lease, Receiver, Option<Sender>) {
        let mut state = self.state();
        let state = &mut *state;
        state.uses += 1;
        state.last = Some(key);
        let mut sender = None;
        let entry = state.entries.entry(key).or_insert_with(|| {
            let (new, outcome) = watch::channel(None);
            sender = Some(new);
            state.held_bytes += len_bytes;
            Entry {
                len_bytes,
                phase: Phase::Waiting,
                users: 0,
                used_at: 0,
                outcome,
            }
        });
        state.idle.remove(&entry.used_at);
        entry.users += 1;
        entry.used_at = state.uses;
        let outcome = entry.outcome.clone();
        state.trim(self.limit_bytes);
        let lease = Lease {
            cache: Arc::clone(self),
            key,
            bytes: Arc::default(),
        };
        (lease, outcome, sender)
    }

    /// Decodes, once it is this tensor's turn and if somebody still waits.
    async fn fill(
        self: Arc<Self>,
        key: Key,
        sender: Sender,
        decode: impl FnOnce() -> Result<Vec<u8>, String> + Send + 'static,
    ) {
        let Ok(turn) = Arc::clone(&self.turns).acquire_owned().await else {
            return;
        };
        // Entries that everybody left are gone, and nobody listens here.
        match self.state().entries.get_mut(&key) {
            Some(entry) if !sender.is_closed() => entry.phase = Phase::Decoding,
            _ => return,
        }
        tokio::task::spawn_blocking(move || {
            let outcome = catch_unwind(AssertUnwindSafe(decode))
                .unwrap_or_else(|_| Err("the decoder stopped unexpectedly".into()));
            self.finish(key, outcome.is_ok());
            sender.send_replace(Some(outcome.map(Arc::new)));
            drop(turn);
        });
    }

    fn finish(&self, key: Key, decoded: bool) {
        let mut state = self.state();
        if let Some(entry) = state.entries.get_mut(&key) {
            entry.phase = if decoded {
                Phase::Decoded
            } else {
                Phase::Failed
            };
            if entry.users == 0 {
                state.settle(key, self.limit_bytes);
            }
        }
    }

    fn release(&self, key: Key) {
        let mut state = self.state();
        if let Some(entry) = state.entries.get_mut(&key) {
            entry.users -= 1;
            if entry.users == 0 {
                state.settle(key, self.limit_bytes);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What becomes of an entry without users.
    fn settle(&mut self, key: Key, limit_bytes: u64) {
        let Some(entry) = self.entries.get(&key) else {
            return;
        };
        match entry.phase {
            // Decoding goes on; who asks meanwhile gets it.
            Phase::Decoding => {}
            Phase::Waiting | Phase::Failed => self.remove(key),
            Phase::Decoded => {
                self.idle.insert(entry.used_at, key);
                self.trim(limit_bytes);
            }
        }
    }

    fn trim(&mut self, limit_bytes: u64) {
        while self.held_bytes > limit_bytes {
            match self.idle.first_key_value() {
                Some((&at, &key)) if self.last != Some(key) => {
                    self.idle.remove(&at);
                    self.remove(key);
                }
                _ => return,
            }
        }
    }

    fn remove(&mut self, key: Key) {
        if let Some(entry) = self.entries.remove(&key) {
            self.held_bytes -= entry.len_bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn run(work: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(work);
    }

    /// A tensor of ten bytes; tells how often it was decoded.
    async fn ten(cache: &Arc<DecodedTensors>, number: usize, count: &Arc<AtomicUsize>) -> Lease {
        let count = Arc::clone(count);
        let decode = move || {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(vec![7; 10])
        };
        cache.get((0, number), 10, decode).await.unwrap()
    }

    #[test]
    fn those_who_ask_at_the_same_time_share_the_work() {
        run(async {
            let (cache, count) = (Arc::new(DecodedTensors::new(0)), Arc::default());
            let (gate, closed) = std::sync::mpsc::channel::<()>();
            let decode = move || {
                let _ = closed.recv();
                Ok(vec![1; 10])
            };
            let first = tokio::spawn({
                let cache = Arc::clone(&cache);
                async move {
                    cache
                        .get((0, 0), 10, decode)
                        .await
                        .unwrap()
                        .as_ref()
                        .to_vec()
                }
            });
            while cache.state().entries.is_empty() {
                tokio::task::yield_now().await;
            }
            let second = tokio::spawn({
                let (cache, count) = (Arc::clone(&cache), Arc::clone(&count));
                async move { ten(&cache, 0, &count).await.as_ref().to_vec() }
            });
            while cache.state().entries[&(0, 0)].users < 2 {
                tokio::task::yield_now().await;
            }
            gate.send(()).unwrap();
            assert_eq!(first.await.unwrap(), [1; 10]);
            assert_eq!(second.await.unwrap(), [1; 10]);
            assert_eq!(count.load(Ordering::SeqCst), 0);
        });
    }

    #[test]
    fn the_limit_holds_for_what_nobody_uses() {
        run(async {
            let (cache, count) = (Arc::new(DecodedTensors::new(25)), Arc::default());
            for number in [0, 1, 0, 1, 2] {
                ten(&cache, number, &count).await;
            }
            assert_eq!(count.load(Ordering::SeqCst), 3);
            assert_eq!(cache.state().held_bytes, 20, "0 was used longest ago");
            let in_use = [ten(&cache, 1, &count).await, ten(&cache, 2, &count).await];
            ten(&cache, 3, &count).await;
            assert_eq!(cache.state().held_bytes, 30, "what is used stays");
            drop(in_use);
            assert_eq!(cache.state().held_bytes, 20);
        });
    }

    #[test]
    fn one_larger_than_the_limit_stays_until_another_is_used() {
        run(async {
            let (cache, count) = (Arc::new(DecodedTensors::new(0)), Arc::default());
            for number in [0, 0, 0, 1, 0] {
                ten(&cache, number, &count).await;
            }
            assert_eq!(count.load(Ordering::SeqCst), 3);
            assert_eq!(cache.state().held_bytes, 10);
        });
    }

    #[test]
    fn failures_and_panics_are_not_kept() {
        run(async {
            let (cache, count) = (Arc::new(DecodedTensors::new(100)), Arc::default());
            let failed = cache.get((0, 0), 10, || Err("damaged".into())).await;
            assert_eq!(failed.err().as_deref(), Some("damaged"));
            let failed = cache.get((0, 0), 10, || panic!("on purpose")).await;
            assert!(failed.is_err());
            assert_eq!(cache.state().held_bytes, 0);
            assert_eq!(ten(&cache, 0, &count).await.as_ref(), [7; 10]);
        });
    }
}
