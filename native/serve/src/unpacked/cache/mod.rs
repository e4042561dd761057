//! Decoded tensors: those that requests read, and those kept for the next
//! range of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

pub(super) use reading::Reading;
use state::State;

mod reading;
mod state;
#[cfg(test)]
mod tests;

/// A part of a tensor: number of the file, number of the tensor in it, and the first
/// byte of the part. A part is a whole tensor or a block of its rows.
pub(super) type Key = (u64, usize, u64);

/// The bytes, or why there are none.
type Outcome = Result<Arc<Vec<u8>>, String>;

type Sender = watch::Sender<Option<Outcome>>;
type Receiver = watch::Receiver<Option<Outcome>>;

/// Decodes one tensor; called again where its bytes had to be dropped.
pub(super) type Decode = Arc<dyn Fn() -> Result<Vec<u8>, String> + Send + Sync>;

/// Decodes tensors when they are asked for, off the threads that answer;
/// requests for one tensor share the work.
///
/// All tensors in memory together take at most `limit_bytes`. One that is longer is
/// decoded alone, up to `max_bytes`, and dropped with its last reader. A tensor is decoded when there is room for it next to
/// those that are being read, and what nobody reads is dropped for it, the one
/// used longest ago first. A reader that is slow loses its claim to a tensor
/// while others wait for room, so that everybody gets on; what it has not read
/// by then is decoded again when it comes back.
pub struct DecodedTensors {
    limit_bytes: u64,
    max_bytes: u64,
    /// `limit_bytes` in units of `unit_bytes`; tensors that are read or
    /// decoded hold theirs. First come, first served.
    room: Arc<Semaphore>,
    room_units: u32,
    unit_bytes: u64,
    /// Limits the tensors decoded at a time.
    turns: Arc<Semaphore>,
    /// Tensors that are begun for a request before it gets to them.
    ahead: usize,
    patience: Patience,
    state: Mutex<State>,
}

/// Time that a tensor stays with its readers while others wait for room.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Since the last of its bytes was read.
    pub(super) unread: Duration,
    /// Since it was decoded, and at least as long as that took.
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
        // A million units are fine enough, and a semaphore can count them.
        let unit_bytes = (limit_bytes >> 20).max(1);
        let room_units =
            u32::try_from(limit_bytes / unit_bytes).map_or(u32::MAX, |units| units.max(1));
        // Decoding keeps a processor busy.
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

    /// Refuses what has to be decoded as a whole and is longer than `max_bytes`.
    pub fn with_max_tensor(mut self, max_bytes: u64) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// Returns the length of the longest part of a tensor that is decoded.
    pub(super) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Runs a task that reads for a tensor, when it is its turn.
    pub(super) async fn turn<T: Send + 'static>(
        &self,
        task: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<T> {
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let task = move || {
            let _turn = turn;
            task()
        };
        let result = tokio::task::spawn_blocking(task).await;
        result.map_err(std::io::Error::other)
    }

    /// Decodes up to `turns` tensors at a time, and begins `ahead` of them before
    /// a request gets to them: for packed files on another machine, where
    /// decoding is mostly waiting.
    pub fn with_turns(mut self, turns: usize, ahead: usize) -> Self {
        self.turns = Arc::new(Semaphore::new(turns));
        self.ahead = ahead;
        self
    }

    /// Returns the number of tensors that are begun before a request gets to them.
    pub(super) fn ahead(&self) -> usize {
        self.ahead
    }

    /// Returns the length of the tensors in memory, in bytes.
    pub fn held_bytes(&self) -> u64 {
        self.state().held_bytes()
    }

    /// Returns a reader of the tensor `key` of `len_bytes`; nothing is decoded
    /// before its bytes are asked for.
    pub(super) fn reading(self: &Arc<Self>, key: Key, len_bytes: u64, decode: Decode) -> Reading {
        Reading::new(Arc::clone(self), key, len_bytes, decode)
    }

    /// Units of room for a tensor: all of them for one that is larger than
    /// the limit, so that it is the only one.
    fn units(&self, len_bytes: u64) -> u32 {
        let units = len_bytes.div_ceil(self.unit_bytes);
        u32::try_from(units).map_or(self.room_units, |units| units.clamp(1, self.room_units))
    }

    fn room_now(&self, len_bytes: u64) -> Option<OwnedSemaphorePermit> {
        let room = Arc::clone(&self.room);
        room.try_acquire_many_owned(self.units(len_bytes)).ok()
    }

    /// Decodes, once there is room and it is this tensor's turn, if somebody
    /// still waits.
    async fn fill(
        self: Arc<Self>,
        (key, id): (Key, u64),
        sender: Sender,
        len_bytes: u64,
        room: Option<OwnedSemaphorePermit>,
        decode: Decode,
    ) {
        let room = match room {
            Some(room) => room,
            None => tokio::select! {
                room = self.wait_for_room(len_bytes) => match room {
                    Some(room) => room,
                    None => return,
                },
                () = sender.closed() => return,
            },
        };
        let Ok(turn) = Arc::clone(&self.turns).acquire_owned().await else {
            return;
        };
        // Entries that everybody left are gone, and nobody listens here.
        if sender.is_closed() || !self.state().begin(key, id, room, self.limit_bytes) {
            return;
        }
        tokio::task::spawn_blocking(move || {
            let start = Instant::now();
            let outcome = catch_unwind(AssertUnwindSafe(|| decode()))
                .unwrap_or_else(|_| Err("the decoder stopped unexpectedly".into()));
            let now = Instant::now();
            let keep = self.patience.in_all.max(now - start);
            self.state()
                .finish(key, outcome.is_ok(), now, now + keep, self.limit_bytes);
            sender.send_replace(Some(outcome.map(Arc::new)));
            drop(turn);
        });
    }

    /// Waits in line, and takes room back from readers that are slow.
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
