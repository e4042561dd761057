//! Which files are there for whom, for as long as the answer is trusted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::OnceCell;

use super::request::Revision;
use super::upstream::{Entry, Permissions, Refusal, Upstream};

/// The most answers that are kept.
const MAX_KEPT: usize = 1 << 16;

/// A digest of who asks for what. Permissions themselves are not kept.
type Key = [u8; 32];

/// The file, or that there is none.
type Answer = Result<Entry, Refusal>;

/// The upstream's answers to "is it there, and may it be read", each trusted for
/// the same time and only for the permissions that it was given to. Requests for
/// one file share the question.
pub(super) struct Entries {
    trust: Duration,
    /// Without it nobody can tell from a key what it was made of.
    secret: [u8; 32],
    kept: Mutex<HashMap<Key, Kept>>,
}

struct Kept {
    since: Instant,
    answer: Arc<OnceCell<Answer>>,
}

impl Entries {
    /// Trusts answers for the time `trust`.
    pub(super) fn new(trust: Duration) -> Self {
        use std::hash::{BuildHasher, RandomState};
        let mut secret = [0; 32];
        for part in secret.chunks_exact_mut(8) {
            // Each state has keys of its own from the system.
            part.copy_from_slice(&RandomState::new().hash_one(0).to_le_bytes());
        }
        Self {
            trust,
            secret,
            kept: Mutex::default(),
        }
    }

    /// Returns the file `path`.
    ///
    /// # Errors
    /// The upstream's refusal. That there is no such file is trusted as well; any
    /// other refusal is asked for again by the next request.
    pub(super) async fn look(
        &self,
        upstream: &Upstream,
        revision: &Revision,
        path: &str,
        permissions: &Permissions,
    ) -> Answer {
        let answer = self.kept(self.key(revision, path, permissions));
        let asked = answer.get_or_try_init(|| async {
            match upstream.look(revision, path, permissions).await {
                Err(refusal) if !refusal.is_no_entry() => Err(refusal),
                answer => Ok(answer),
            }
        });
        asked.await?.clone()
    }

    fn key(&self, revision: &Revision, path: &str, permissions: &Permissions) -> Key {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        let prefix = revision.repository.prefix();
        let permissions = permissions
            .value()
            .map_or(&[][..], |value| value.as_bytes());
        for part in [
            prefix.as_bytes(),
            revision.name.as_bytes(),
            path.as_bytes(),
            permissions,
        ] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        *hasher.finalize().as_bytes()
    }

    fn kept(&self, key: Key) -> Arc<OnceCell<Answer>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_KEPT {
            kept.retain(|_, kept| kept.since.elapsed() < self.trust);
        }
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        let new = || Kept {
            since: Instant::now(),
            answer: Arc::default(),
        };
        let entry = kept.entry(key).or_insert_with(new);
        if entry.since.elapsed() >= self.trust {
            *entry = new();
        }
        Arc::clone(&entry.answer)
    }
}
