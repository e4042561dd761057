//! A cache of decoded tensors, which includes those being read.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use entries::{Entered, State};

mod entries;
#[cfg(test)]
mod tests;

/// A span of a tensor: the number of the file, the number of the tensor in it, and the
/// first byte of the span. A span is a whole tensor or a block of its rows.
pub(super) type Key = (u64, usize, u64);

/// The decoded bytes or an error message.
type Outcome = Result<Arc<Vec<u8>>, String>;

type Sender = watch::Sender<Option<Outcome>>;
type Receiver = watch::Receiver<Option<Outcome>>;

/// A function that fetches and decodes one span. It is called again if the bytes have
/// been dropped. Work that continues after the future was dropped holds the claim until
/// it ends.
pub(super) type Decode =
    Arc<dyn Fn(Arc<Claim>) -> BoxFuture<'static, Result<Vec<u8>, String>> + Send + Sync>;

/// Fetches and decodes tensors on request. Concurrent requests for one tensor share the
/// work, which ends when all of them are gone.
///
/// All tensors in memory take at most `limit_bytes` together. A longer one is decoded
/// alone, up to `max_bytes`, and dropped with its last reader. A tensor is decoded when
/// it fits in addition to the tensors being read; tensors without readers are dropped
/// to make space, the least recently used first. While others wait for memory, a slow
/// reader loses its claim to a tensor, so that all readers make progress; if the tensor
/// is dropped, it is decoded again when the slow reader continues.
pub struct DecodedTensors {
    limit_bytes: u64,
    max_bytes: u64,
    /// Permits for `limit_bytes` in units of `unit_bytes`, granted in order. A tensor
    /// that is being decoded or read holds permits for its length.
    room: Arc<Semaphore>,
    room_units: u32,
    unit_bytes: u64,
    /// Limits how many tensors are fetched and decoded concurrently.
    turns: Arc<Semaphore>,
    /// Number of tensors that are decoded ahead of the one that a request reads.
    ahead: usize,
    patience: Patience,
    state: Mutex<State>,
}

/// The times for which readers keep their claim to a tensor while others wait for memory.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// The time since the tensor was last read from.
    pub(super) unread: Duration,
    /// The time since the tensor was decoded. If decoding took longer than this, the
    /// decoding time applies.
    pub(super) in_all: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            unread: Duration::from_millis(250),
            in_all: Duration::from_secs(2),
        }
    }
}

impl DecodedTensors {
    pub fn new(limit_bytes: u64, patience: Patience) -> Self {
        // A million units are fine-grained enough, and a semaphore can count them.
        let unit_bytes = (limit_bytes >> 20).max(1);
        let room_units =
            u32::try_from(limit_bytes / unit_bytes).map_or(u32::MAX, |units| units.max(1));
        // Decoding is CPU-bound, so there is one turn per core.
        let turns = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            limit_bytes,
            max_bytes: u64::MAX,
            room: Arc::new(Semaphore::new(room_units as usize)),
            room_units,
            unit_bytes,
            turns: Arc::new(Semaphore::new(turns)),
            ahead: 1,
            patience,
            state: Mutex::default(),
        }
    }

    /// Refuses spans that are longer than `max_bytes`.
    pub fn with_max_tensor(mut self, max_bytes: u64) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// Returns the length of the longest span that is decoded, in bytes.
    pub(super) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Waits for a turn to read from a packed file.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.turns).acquire_owned().await.ok()
    }

    /// Fetches up to `turns` tensors concurrently, and starts `ahead` tensors before a
    /// request reads them. This suits packed files on another machine, where most of the
    /// time is spent waiting for the network.
    pub fn with_turns(mut self, turns: usize, ahead: usize) -> Self {
        self.turns = Arc::new(Semaphore::new(turns));
        self.ahead = ahead;
        self
    }

    /// Returns the number of tensors that are decoded ahead of the one that a request
    /// reads.
    pub(super) fn ahead(&self) -> usize {
        self.ahead
    }

    /// Returns the number of bytes that decoded tensors occupy.
    pub fn held_bytes(&self) -> u64 {
        self.state().held_bytes()
    }

    /// Returns a reader of the span `key` of `len_bytes`. Decoding starts when its
    /// bytes are first requested.
    pub(super) fn reading(self: &Arc<Self>, key: Key, len_bytes: u64, decode: Decode) -> Reading {
        Reading::new(Arc::clone(self), key, len_bytes, decode)
    }

    /// Returns the permits for a tensor. A tensor longer than the limit needs all of
    /// them, so that it is the only one.
    fn units(&self, len_bytes: u64) -> u32 {
        let units = len_bytes.div_ceil(self.unit_bytes);
        u32::try_from(units).map_or(self.room_units, |units| units.clamp(1, self.room_units))
    }

    fn room_now(&self, len_bytes: u64) -> Option<OwnedSemaphorePermit> {
        let room = Arc::clone(&self.room);
        room.try_acquire_many_owned(self.units(len_bytes)).ok()
    }

    /// Decodes a tensor once there is memory and a turn for it. Ends early when all
    /// readers have left.
    async fn fill(
        self: Arc<Self>,
        entry: (Key, u64),
        sender: Sender,
        len_bytes: u64,
        room: Option<OwnedSemaphorePermit>,
        decode: Decode,
    ) {
        let filling = async {
            let room = match room {
                Some(room) => room,
                None => self.wait_for_room(len_bytes).await?,
            };
            let turn = self.turn().await?;
            if !self.state().begin(entry, self.limit_bytes) {
                return None;
            }
            let claim = Arc::new(Claim {
                cache: Arc::clone(&self),
                len_bytes,
                room: Mutex::new(Some(room)),
                _turn: turn,
            });
            let start = Instant::now();
            let decoding = AssertUnwindSafe(async { decode(Arc::clone(&claim)).await });
            let outcome = decoding.catch_unwind().await;
            let stopped = |_| Err("the decoder stopped unexpectedly".into());
            let outcome = outcome.unwrap_or_else(stopped);
            let now = Instant::now();
            let kept_until = now + self.patience.in_all.max(now - start);
            let mut state = self.state();
            match &outcome {
                Ok(_) => state.finish(entry, &claim, now, kept_until),
                Err(_) => state.fail(entry),
            }
            drop(state);
            Some(outcome.map(Arc::new))
        };
        tokio::select! {
            outcome = filling => {
                if outcome.is_some() {
                    sender.send_replace(outcome);
                }
            }
            () = sender.closed() => {}
        }
    }

    /// Waits for permits in order, and takes permits back from slow readers.
    async fn wait_for_room(&self, len_bytes: u64) -> Option<OwnedSemaphorePermit> {
        let room = Arc::clone(&self.room).acquire_many_owned(self.units(len_bytes));
        tokio::pin!(room);
        let pause = (self.patience.unread / 4).max(Duration::from_millis(1));
        loop {
            tokio::select! {
                biased;
                room = &mut room => return room.ok(),
                () = tokio::time::sleep(pause) => {
                    self.state().take_back(self.patience.unread, pause);
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The memory of a tensor that is being decoded. Its bytes are counted until it is
/// dropped, or until the entry takes over its permits.
pub(super) struct Claim {
    cache: Arc<DecodedTensors>,
    len_bytes: u64,
    room: Mutex<Option<OwnedSemaphorePermit>>,
    _turn: OwnedSemaphorePermit,
}

impl Claim {
    fn take_room(&self) -> Option<OwnedSemaphorePermit> {
        self.room
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // The permits are released after the bytes.
        let room = self.take_room();
        if room.is_some() {
            self.cache.state().release(self.len_bytes);
        }
    }
}

/// A reader of a span. The tensor stays in memory while the reader makes progress. If
/// the reader pauses and others need the memory, the tensor may be dropped. It is
/// decoded again when its bytes are requested next.
pub(super) struct Reading {
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
    pub(super) async fn bytes(&mut self) -> Result<Arc<Vec<u8>>, String> {
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
    pub(super) fn prefetch(&mut self) {
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
        room: Option<OwnedSemaphorePermit>,
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
