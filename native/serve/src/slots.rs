//! Slots for answers: they limit the concurrent answers in total and per address, and
//! slow clients lose theirs.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::connections::Limits;
use super::stall::Progress;

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

/// All slots of a server.
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
    progress: Arc<Progress>,
    /// Notified to close the connection.
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
    pub(super) progress: Arc<Progress>,
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
            progress: Arc::clone(&claim.progress),
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
            .map(|(number, taken)| (taken.progress.behind(self.limits.write), *number));
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
