//! The entries of the cache and their readers.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

use super::{Claim, Key, Receiver, Sender};

#[derive(Default)]
pub(super) struct State {
    entries: HashMap<Key, Entry>,
    /// Decoded entries that hold permits.
    claimed: HashSet<Key>,
    /// Decoded entries without permits, in the order of their last use. These are
    /// dropped to make space.
    idle: BTreeMap<u64, Key>,
    held_bytes: u64,
    /// The maximum that `held_bytes` has reached.
    #[cfg(test)]
    pub(super) most_bytes: u64,
    uses: u64,
    looked_at: Option<Instant>,
}

struct Entry {
    /// A number that is unique among all entries, including later ones of the same span.
    id: u64,
    len_bytes: u64,
    is_decoded: bool,
    users: usize,
    used_at: u64,
    read_at: Instant,
    /// The time until which readers that make progress keep their permits.
    kept_until: Instant,
    room: Option<OwnedSemaphorePermit>,
    outcome: Receiver,
}

/// The entry that a reader has joined.
pub(super) struct Entered {
    pub(super) id: u64,
    pub(super) outcome: Receiver,
    /// The sender of the outcome, if the entry is new and the reader has to fill it.
    pub(super) sender: Option<Sender>,
}

impl State {
    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    #[cfg(test)]
    pub(super) fn users(&self, key: Key) -> usize {
        self.entries.get(&key).map_or(0, |entry| entry.users)
    }

    pub(super) fn has(&self, key: Key) -> bool {
        self.entries.contains_key(&key)
    }

    /// Adds a reader to the entry of the span, unless it is counted in entry `id`
    /// already. A decoded entry without permits gets some if `room_now` returns any.
    pub(super) fn enter(
        &mut self,
        key: Key,
        len_bytes: u64,
        id: Option<u64>,
        room_now: impl FnOnce() -> Option<OwnedSemaphorePermit>,
    ) -> Entered {
        self.uses += 1;
        let (uses, now) = (self.uses, Instant::now());
        let mut sender = None;
        let entry = self.entries.entry(key).or_insert_with(|| {
            let (new, outcome) = watch::channel(None);
            sender = Some(new);
            Entry {
                id: uses,
                len_bytes,
                is_decoded: false,
                users: 0,
                used_at: uses,
                read_at: now,
                kept_until: now,
                room: None,
                outcome,
            }
        });
        if id != Some(entry.id) {
            entry.users += 1;
        }
        let was_idle = self.idle.remove(&entry.used_at).is_some();
        (entry.used_at, entry.read_at) = (uses, now);
        if was_idle {
            entry.room = room_now();
            match entry.room {
                Some(_) => self.claimed.insert(key),
                None => self.idle.insert(uses, key).is_none(),
            };
        }
        Entered {
            id: entry.id,
            outcome: entry.outcome.clone(),
            sender,
        }
    }

    /// Counts the bytes of the entry `id`, which is about to be decoded. Returns false if
    /// it has been removed.
    pub(super) fn begin(&mut self, (key, id): (Key, u64), limit_bytes: u64) -> bool {
        let Some(len_bytes) = self.entry(key, id).map(|entry| entry.len_bytes) else {
            return false;
        };
        self.held_bytes += len_bytes;
        self.trim(limit_bytes);
        #[cfg(test)]
        {
            self.most_bytes = self.most_bytes.max(self.held_bytes);
        }
        true
    }

    /// Subtracts the bytes of a decoded span that no entry has taken over.
    pub(super) fn release(&mut self, len_bytes: u64) {
        self.held_bytes -= len_bytes;
    }

    /// Records that the entry `id` has been decoded. Unless it has been removed, it takes
    /// over the bytes counted by [`State::begin`], and their permits.
    pub(super) fn finish(
        &mut self,
        (key, id): (Key, u64),
        claim: &Claim,
        now: Instant,
        kept_until: Instant,
    ) {
        if let Some(entry) = self.entry(key, id) {
            entry.is_decoded = true;
            entry.room = claim.take_room();
            (entry.read_at, entry.kept_until) = (now, kept_until);
            self.claimed.insert(key);
        }
    }

    /// Removes the entry `id`, which could not be decoded. The failure is reported to all
    /// current readers and not cached.
    pub(super) fn fail(&mut self, (key, id): (Key, u64)) {
        if self.entry(key, id).is_some() {
            self.remove(key);
        }
    }

    fn entry(&mut self, key: Key, id: u64) -> Option<&mut Entry> {
        self.entries.get_mut(&key).filter(|entry| entry.id == id)
    }

    /// Keeps an entry without readers for later requests, unless it is longer than the
    /// limit.
    fn leave_to_others(&mut self, key: Key, limit_bytes: u64) {
        match self.entries.get(&key) {
            Some(entry) if entry.len_bytes > limit_bytes => self.remove(key),
            _ => self.give_up_room(key),
        }
    }

    /// Removes a reader from the entry `id`. Without readers, an entry that is not yet
    /// decoded is removed, which ends the work on it.
    pub(super) fn leave(&mut self, key: Key, id: u64, limit_bytes: u64) {
        let Some(entry) = self.entry(key, id) else {
            return;
        };
        entry.users -= 1;
        match (entry.users, entry.is_decoded) {
            (0, true) => self.leave_to_others(key, limit_bytes),
            (0, false) => self.remove(key),
            _ => {}
        }
    }

    /// Takes permits from decoded entries that have not been read from for `unread` or
    /// have reached their `kept_until`. Does nothing if called again within `pause`.
    pub(super) fn take_back(&mut self, unread: Duration, pause: Duration) {
        let now = Instant::now();
        if self.looked_at.is_some_and(|at| now - at < pause) {
            return;
        }
        self.looked_at = Some(now);
        let is_slow = |key: &Key| {
            self.entries
                .get(key)
                .is_some_and(|entry| now >= entry.kept_until || now - entry.read_at >= unread)
        };
        let slow: Vec<Key> = self.claimed.iter().copied().filter(is_slow).collect();
        for key in slow {
            self.give_up_room(key);
        }
    }

    fn give_up_room(&mut self, key: Key) {
        if let Some(entry) = self.entries.get_mut(&key)
            && entry.room.take().is_some()
        {
            self.claimed.remove(&key);
            self.idle.insert(entry.used_at, key);
        }
    }

    /// Drops idle entries until the rest are within the limit.
    fn trim(&mut self, limit_bytes: u64) {
        while self.held_bytes > limit_bytes {
            let Some((_, &key)) = self.idle.first_key_value() else {
                return;
            };
            self.remove(key);
        }
    }

    fn remove(&mut self, key: Key) {
        if let Some(entry) = self.entries.remove(&key) {
            self.idle.remove(&entry.used_at);
            self.claimed.remove(&key);
            if entry.is_decoded {
                self.held_bytes -= entry.len_bytes;
            }
        }
    }
}
