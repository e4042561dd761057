//! A cache of the upstream's answers about clients' permissions. Each answer expires
//! after a fixed time.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::OnceCell;

use super::request::Revision;
use super::upstream::{Entry, Permissions, Refusal, Upstream};
use zstn::Result;

/// Maximum number of cached answers. The oldest is dropped when there are more.
const MAX_KEPT: usize = 1 << 16;

/// A digest of a client's permissions and of its question to the upstream, such as
/// whether a file exists. Only the digest is stored, so the memory for an answer does not
/// depend on the question, and the permissions are not retained.
pub(super) type Key = [u8; 32];

/// A cache of the upstream's answers. Every answer is trusted for the same time, and only
/// for the permissions with which it was obtained. Concurrent requests with the same
/// question share one answer.
pub(super) struct AnswerCache<V> {
    trust: Duration,
    state: Mutex<State<V>>,
}

struct State<V> {
    kept: HashMap<Key, Kept<V>>,
    /// The keys with the time of their first request, oldest first.
    order: VecDeque<(Instant, Key)>,
}

struct Kept<V> {
    since: Instant,
    answer: Arc<OnceCell<V>>,
}

impl<V> AnswerCache<V> {
    /// Creates a cache that trusts answers for `trust`.
    pub(super) fn new(trust: Duration) -> Self {
        Self {
            trust,
            state: Mutex::new(State {
                kept: HashMap::new(),
                order: VecDeque::new(),
            }),
        }
    }

    /// Returns the cell of the answer to `key`, which is empty if the upstream has yet
    /// to be queried.
    pub(super) fn cell(&self, key: Key) -> Arc<OnceCell<V>> {
        let now = Instant::now();
        let mut state = self.state();
        let State { kept, order } = &mut *state;
        while let Some(&(since, oldest)) = order.front()
            && (now - since >= self.trust || order.len() >= MAX_KEPT)
        {
            order.pop_front();
            if kept.get(&oldest).is_some_and(|kept| kept.since == since) {
                kept.remove(&oldest);
            }
        }
        let entry = kept.entry(key).or_insert_with(|| {
            order.push_back((now, key));
            Kept {
                since: now,
                answer: Arc::default(),
            }
        });
        Arc::clone(&entry.answer)
    }

    /// Drops the answer to `key`, which turned out to be wrong.
    pub(super) fn forget(&self, key: &Key) {
        self.state().kept.remove(key);
    }

    fn state(&self) -> MutexGuard<'_, State<V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A secret for computing keys that clients can neither predict nor make collide.
pub(super) struct CacheKeys([u8; 32]);

impl CacheKeys {
    /// Takes a random secret from the operating system.
    ///
    /// # Errors
    /// If the system provides no random bytes.
    pub(super) fn new() -> Result<Self> {
        zstn_serve::random_bytes().map(Self)
    }

    /// Returns the key of a question about the file `path` with these permissions.
    /// `more` distinguishes questions about the same file.
    pub(super) fn key(
        &self,
        revision: &Revision,
        path: &str,
        permissions: &Permissions,
        more: &str,
    ) -> Key {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        let prefix = revision.repository.to_string();
        let value = permissions.value();
        for part in [
            prefix.as_bytes(),
            revision.name.as_bytes(),
            path.as_bytes(),
            value.map_or(&[], |value| value.as_bytes()),
            &[u8::from(value.is_some())],
            more.as_bytes(),
        ] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        *hasher.finalize().as_bytes()
    }
}

/// The files that exist for each client, as the upstream has reported them.
pub(super) struct EntryCache {
    keys: Arc<CacheKeys>,
    /// Maps each key to the file's entry, or to `None` if the file does not exist. The
    /// text of the upstream's refusal is not cached.
    answers: AnswerCache<Option<Entry>>,
}

impl EntryCache {
    pub(super) fn new(keys: &Arc<CacheKeys>, trust: Duration) -> Self {
        Self {
            keys: Arc::clone(keys),
            answers: AnswerCache::new(trust),
        }
    }

    /// Returns the entry of the file `path`.
    ///
    /// # Errors
    /// The upstream's refusal. The absence of a file is cached like an entry; after any
    /// other refusal, the next request queries the upstream again.
    pub(super) async fn look(
        &self,
        upstream: &Upstream,
        revision: &Revision,
        path: &str,
        permissions: &Permissions,
    ) -> std::result::Result<Entry, Refusal> {
        let cell = self.answers.cell(self.key(revision, path, permissions));
        let asked = cell.get_or_try_init(|| async {
            match upstream.look(revision, path, permissions).await {
                Ok(entry) => Ok(Some(entry)),
                Err(refusal) if refusal.is_no_entry() => Ok(None),
                Err(refusal) => Err(refusal),
            }
        });
        let known = asked.await?.clone();
        known.ok_or_else(|| Refusal::no_entry(path))
    }

    /// Drops the cached entry of a file, which an error has shown to be outdated.
    pub(super) fn forget(&self, revision: &Revision, path: &str, permissions: &Permissions) {
        self.answers.forget(&self.key(revision, path, permissions));
    }

    fn key(&self, revision: &Revision, path: &str, permissions: &Permissions) -> Key {
        self.keys.key(revision, path, permissions, "entry")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_dropped_by_time_and_by_number() {
        let trusted = AnswerCache::<()>::new(Duration::from_secs(3600));
        let key = |number: usize| {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&number.to_le_bytes());
            key
        };
        for number in 0..MAX_KEPT + 10 {
            trusted.cell(key(number)).set(()).unwrap();
        }
        let state = trusted.state();
        assert_eq!((state.kept.len(), state.order.len()), (MAX_KEPT, MAX_KEPT));
        assert!(!state.kept.contains_key(&key(9)) && state.kept.contains_key(&key(10)));
        drop(state);

        let untrusted = AnswerCache::<()>::new(Duration::ZERO);
        for number in 0..100 {
            let cell = untrusted.cell(key(number % 2));
            assert!(cell.get().is_none());
            cell.set(()).unwrap();
        }
        assert!(untrusted.state().kept.len() <= 1);
    }
}
