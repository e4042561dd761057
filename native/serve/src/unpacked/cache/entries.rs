//! The entries of the cache and their readers.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

use super::{Key, Receiver, Sender};

#[derive(Default)]
pub(super) struct State {
    entries: HashMap<Key, Entry>,
    /// Entries that hold permits.
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
    /// Unique among all entries, including later ones of the same span.
    id: u64,
    len_bytes: u64,
    phase: Phase,
    users: usize,
    used_at: u64,
    read_at: Instant,
    /// Until then, readers that make progress keep their permits.
    kept_until: Instant,
    room: Option<OwnedSemaphorePermit>,
    outcome: Receiver,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    Decoding,
    Decoded,
}

/// The entry that a reader has joined.
pub(super) struct Entered {
    pub(super) id: u64,
    pub(super) outcome: Receiver,
    /// Set if the entry is new and the reader has to fill it.
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
                phase: Phase::Waiting,
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

    /// Marks the entry `id` as being decoded, with the permits `room`. Returns false if
    /// it has been removed.
    pub(super) fn begin(
        &mut self,
        key: Key,
        id: u64,
        room: OwnedSemaphorePermit,
        limit_bytes: u64,
    ) -> bool {
        let Some(entry) = self.entries.get_mut(&key).filter(|entry| entry.id == id) else {
            return false;
        };
        entry.phase = Phase::Decoding;
        entry.room = Some(room);
        self.claimed.insert(key);
        self.held_bytes += entry.len_bytes;
        self.trim(limit_bytes);
        #[cfg(test)]
        {
            self.most_bytes = self.most_bytes.max(self.held_bytes);
        }
        true
    }

    /// Records that decoding has ended. A failure is reported to all current readers
    /// and not cached.
    pub(super) fn finish(
        &mut self,
        key: Key,
        is_decoded: bool,
        now: Instant,
        kept_until: Instant,
        limit_bytes: u64,
    ) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        if !is_decoded {
            self.remove(key);
            return;
        }
        entry.phase = Phase::Decoded;
        entry.read_at = now;
        entry.kept_until = kept_until;
        if entry.users == 0 {
            self.leave_to_others(key, limit_bytes);
        }
    }

    /// Keeps an entry without readers for later requests, unless it is longer than the
    /// limit.
    fn leave_to_others(&mut self, key: Key, limit_bytes: u64) {
        match self.entries.get(&key) {
            Some(entry) if entry.len_bytes > limit_bytes => self.remove(key),
            _ => self.give_up_room(key),
        }
    }

    /// Removes a reader from the entry `id`.
    pub(super) fn leave(&mut self, key: Key, id: u64, limit_bytes: u64) {
        let Some(entry) = self.entries.get_mut(&key).filter(|entry| entry.id == id) else {
            return;
        };
        entry.users -= 1;
        match (entry.users, entry.phase) {
            (0, Phase::Waiting) => self.remove(key),
            (0, Phase::Decoded) => self.leave_to_others(key, limit_bytes),
            // Decoding continues, and new readers can join.
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
            self.entries.get(key).is_some_and(|entry| {
                let is_over = now >= entry.kept_until || now - entry.read_at >= unread;
                entry.phase == Phase::Decoded && is_over
            })
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
            if entry.phase != Phase::Waiting {
                self.held_bytes -= entry.len_bytes;
            }
        }
    }
}
