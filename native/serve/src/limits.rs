//! The limits of connections. Slots limit the concurrent answers in total and per
//! address. Each client has a time budget for taking bytes; while requests wait, the
//! slowest clients lose their slots.

use std::collections::HashMap;
use std::io::{self, ErrorKind, IoSlice};
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

/// The limits of a server's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The head of a request must be complete within this time after the connection was
    /// opened or the previous answer has ended.
    pub head: Duration,
    /// Time budget for a client to take the bytes that are ready for it. The budget
    /// decreases while the server waits for the client, and every 4 kB that the client
    /// takes restore one second. A client whose budget is used up is disconnected.
    pub write: Duration,
    /// Number of answers in progress. Further requests wait for up to 30 seconds and
    /// are then refused with status 503. In addition, 64 connections may be idle or
    /// waiting; beyond that, a new connection replaces the one that has been idle
    /// longest.
    pub connections: usize,
    /// Number of answers in progress per address (per /64 network for IPv6). With 0, it
    /// is three quarters of [`Limits::connections`].
    pub connections_per_address: usize,
    /// While requests wait, the slowest client is disconnected if it has used up this
    /// much of its time budget [`Limits::write`].
    pub give_way: Duration,
    /// Time that answers in progress have to end when the server stops.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(20),
            write: Duration::from_secs(60),
            connections: 512,
            connections_per_address: 0,
            give_way: Duration::from_secs(5),
            grace: Duration::from_secs(3),
        }
    }
}

impl Limits {
    /// Returns the number of concurrent answers to one address.
    fn of_an_address(&self) -> usize {
        match self.connections_per_address {
            0 => (self.connections / 4 * 3)
                .max(self.connections.min(4))
                .max(1),
            limit => limit,
        }
    }
}

/// Number of connections that are accepted in addition to those with answers in
/// progress. Their requests wait for a slot or need none.
pub(super) const RESERVE: usize = 64;

/// Number of requests that may wait for a slot. The rest of the reserve stays free for
/// requests that need none.
const MAX_WAITING: usize = RESERVE - 8;

/// Maximum time that a request waits for a slot.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Delay after which a waiting request checks again for slow clients.
const PAUSE: Duration = Duration::from_millis(200);

/// All slots of a server. A slot is the permission to send one answer.
pub(super) struct Slots {
    limits: Limits,
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Default)]
struct State {
    next: u64,
    taken: HashMap<u64, Taken>,
    by_address: HashMap<IpAddr, usize>,
    waiting: usize,
}

struct Taken {
    budget: Arc<TimeBudget>,
    /// Notifying this closes the connection.
    end: Arc<Notify>,
}

/// A slot, which is freed when this is dropped.
pub(super) struct Slot {
    slots: Arc<Slots>,
    number: u64,
    address: IpAddr,
}

/// The error that no slot has become free, or that too many requests wait already.
pub(super) struct Full;

/// A connection that requests a slot.
#[derive(Clone)]
pub(super) struct Claim {
    pub(super) address: IpAddr,
    pub(super) budget: Arc<TimeBudget>,
    pub(super) end: Arc<Notify>,
}

impl Slots {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            state: Mutex::default(),
            freed: Notify::new(),
        })
    }

    /// Waits for a slot. Meanwhile, the slowest clients are disconnected.
    pub(super) async fn take(self: &Arc<Self>, claim: &Claim) -> Result<Slot, Full> {
        if let Some(slot) = self.try_take(claim) {
            return Ok(slot);
        }
        let start = Instant::now();
        let _waiting = Waiting::new(self).ok_or(Full)?;
        while start.elapsed() < MAX_WAIT {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // A slot that is freed after this point wakes this request.
            freed.as_mut().enable();
            if let Some(slot) = self.try_take(claim) {
                return Ok(slot);
            }
            self.end_the_slowest();
            let _ = timeout(PAUSE, freed).await;
        }
        self.try_take(claim).ok_or(Full)
    }

    fn try_take(self: &Arc<Self>, claim: &Claim) -> Option<Slot> {
        let address = group(claim.address);
        let mut state = self.state();
        let of_address = state.by_address.get(&address).copied().unwrap_or(0);
        if state.taken.len() >= self.limits.connections.max(1)
            || of_address >= self.limits.of_an_address()
        {
            return None;
        }
        state.next += 1;
        let number = state.next;
        let taken = Taken {
            budget: Arc::clone(&claim.budget),
            end: Arc::clone(&claim.end),
        };
        state.taken.insert(number, taken);
        *state.by_address.entry(address).or_default() += 1;
        Some(Slot {
            slots: Arc::clone(self),
            number,
            address,
        })
    }

    /// Disconnects the slowest client if it has used up `give_way` or more of its time
    /// budget.
    fn end_the_slowest(&self) {
        let mut state = self.state();
        let behind = state
            .taken
            .iter()
            .map(|(number, taken)| (taken.budget.behind(self.limits.write), *number));
        let slowest = behind
            .max()
            .filter(|(behind, _)| *behind >= self.limits.give_way);
        if let Some((_, number)) = slowest
            && let Some(taken) = state.taken.get_mut(&number)
        {
            taken.end.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.state();
        state.taken.remove(&self.number);
        if let Some(count) = state.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                state.by_address.remove(&self.address);
            }
        }
        drop(state);
        // All waiting requests are woken, because the first one may have used up the
        // share of its address.
        self.slots.freed.notify_waiters();
    }
}

/// A request that waits for a slot.
struct Waiting<'a>(&'a Slots);

impl<'a> Waiting<'a> {
    fn new(slots: &'a Slots) -> Option<Self> {
        let mut state = slots.state();
        (state.waiting < MAX_WAITING).then(|| {
            state.waiting += 1;
            Self(slots)
        })
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}

/// Returns an address that identifies one customer of a provider: the IPv4 address, or
/// the /64 network of an IPv6 address.
pub fn group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() & (u128::MAX << 64);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        address @ IpAddr::V4(_) => address,
    }
}

/// Bytes per second that a client has to take on average while bytes are ready for it.
const MIN_BYTES_PER_SECOND: f64 = 4096.0;

/// The time budget of a client. It decreases while the server waits for the client to
/// take bytes, and bytes that are taken restore it.
#[derive(Debug)]
pub(super) struct TimeBudget(Mutex<Budget>);

#[derive(Debug)]
struct Budget {
    left: Duration,
    /// When the server began to wait for the client, if it is waiting.
    waits_since: Option<Instant>,
}

impl TimeBudget {
    fn new(limit: Duration) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Budget {
            left: limit,
            waits_since: None,
        })))
    }

    /// Returns how much of the budget `limit` the client has used up.
    pub(super) fn behind(&self, limit: Duration) -> Duration {
        let state = self.state();
        let waited = state.waits_since.map(|since| since.elapsed());
        limit.saturating_sub(state.left) + waited.unwrap_or_default()
    }

    /// Records that the client has taken `len` bytes.
    fn took(&self, len: usize, limit: Duration) {
        let mut state = self.state();
        if let Some(since) = state.waits_since.take() {
            state.left = state.left.saturating_sub(since.elapsed());
        }
        #[expect(clippy::cast_precision_loss, reason = "a write is short")]
        let gained = Duration::from_secs_f64(len as f64 / MIN_BYTES_PER_SECOND);
        state.left = (state.left + gained).min(limit);
    }

    /// Records that the server waits for the client. Returns when the budget will be
    /// used up.
    fn waits(&self) -> Option<Instant> {
        let mut state = self.state();
        let since = *state.waits_since.get_or_insert_with(Instant::now);
        since.checked_add(state.left)
    }

    fn state(&self) -> MutexGuard<'_, Budget> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream whose writes fail once the client's time budget is used up.
pub(super) struct TimedStream<S> {
    stream: S,
    limit: Duration,
    budget: Arc<TimeBudget>,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> TimedStream<S> {
    /// Wraps a stream. `limit` is the initial and maximum time budget.
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        Self {
            stream,
            limit,
            budget: TimeBudget::new(limit),
            waiting: None,
        }
    }

    pub(super) fn budget(&self) -> Arc<TimeBudget> {
        Arc::clone(&self.budget)
    }

    /// Updates the budget with the result of a write, whose length `len` returns.
    /// Returns an error if the budget is used up.
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
        len: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(result) = &polled {
            self.waiting = None;
            self.budget.took(result.as_ref().map_or(0, len), self.limit);
            return polled;
        }
        let Some(end) = self.budget.waits() else {
            return Poll::Pending;
        };
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(sleep_until(end)));
        ready!(waiting.as_mut().poll(context));
        let sentence = "the client reads the answer too slowly";
        Poll::Ready(Err(io::Error::new(ErrorKind::TimedOut, sentence)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, polled, |len| *len)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.judge(context, polled, |len| *len)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, polled, |()| 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, polled, |()| 0)
    }
}
