//! One request's reader of one span.

use std::sync::Arc;

use super::state::Entered;
use super::{Decode, DecodedTensors, Key, Sender};

/// A reader of a span. The tensor stays in memory while the reader makes progress. If
/// the reader pauses and others need the memory, the tensor may be dropped. It is
/// decoded again when its bytes are requested next.
pub(in super::super) struct Reading {
    cache: Arc<DecodedTensors>,
    key: Key,
    len_bytes: u64,
    decode: Decode,
    /// The entry that counts this reader.
    entry: Option<u64>,
}

impl Reading {
    pub(super) fn new(
        cache: Arc<DecodedTensors>,
        key: Key,
        len_bytes: u64,
        decode: Decode,
    ) -> Self {
        Self {
            cache,
            key,
            len_bytes,
            decode,
            entry: None,
        }
    }

    /// Returns the bytes of the span, decoding them if necessary. The cache counts them
    /// only while the entry exists, so copy the needed bytes and drop the rest before
    /// awaiting anything.
    pub(in super::super) async fn bytes(&mut self) -> Result<Arc<Vec<u8>>, String> {
        let (outcome, was_mine) = self.outcome().await;
        match outcome {
            // Another reader's attempt may have failed for reasons of its own, such as
            // its permissions.
            Err(_) if !was_mine => self.outcome().await.0,
            outcome => outcome,
        }
    }

    /// Waits for the bytes. Also returns whether this reader started decoding them.
    async fn outcome(&mut self) -> (Result<Arc<Vec<u8>>, String>, bool) {
        let mut entered = self.enter();
        let is_mine = entered.sender.is_some();
        if let Some(sender) = entered.sender.take() {
            let filled = self.fill(entered.id, sender, None);
            tokio::spawn(filled);
        }
        let outcome = entered.outcome.wait_for(Option::is_some).await;
        let outcome = outcome.map_or(None, |outcome| outcome.clone());
        let outcome = outcome.unwrap_or_else(|| Err("decoding was cancelled".into()));
        (outcome, is_mine)
    }

    /// Starts to decode the span if there is memory for it without waiting.
    pub(in super::super) fn prefetch(&mut self) {
        if self.entry.is_some() || self.cache.state().has(self.key) {
            return;
        }
        let Some(room) = self.cache.room_now(self.len_bytes) else {
            return;
        };
        let entered = self.enter();
        if let Some(sender) = entered.sender {
            tokio::spawn(self.fill(entered.id, sender, Some(room)));
        }
    }

    fn enter(&mut self) -> Entered {
        let mut state = self.cache.state();
        let room_now = || self.cache.room_now(self.len_bytes);
        let entered = state.enter(self.key, self.len_bytes, self.entry, room_now);
        self.entry = Some(entered.id);
        entered
    }

    fn fill(
        &self,
        id: u64,
        sender: Sender,
        room: Option<tokio::sync::OwnedSemaphorePermit>,
    ) -> impl Future<Output = ()> + use<> {
        let (cache, decode) = (Arc::clone(&self.cache), Arc::clone(&self.decode));
        cache.fill((self.key, id), sender, self.len_bytes, room, decode)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(id) = self.entry {
            let limit_bytes = self.cache.limit_bytes;
            self.cache.state().leave(self.key, id, limit_bytes);
        }
    }
}
