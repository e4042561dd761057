//! Limits the number of concurrent tasks, in total and per client address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use futures_util::FutureExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::upstream::Refusal;
use zstn_serve::group;

/// A limit for one type of task.
pub(super) struct TaskLimit(Arc<State>);

struct State {
    all: Arc<Semaphore>,
    of_an_address: usize,
    /// The limits of addresses that have permits or wait for one.
    by_address: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
}

/// The permit to run one task, which ends when this is dropped.
pub(super) struct Permit {
    _all: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
    _share: Share,
}

impl TaskLimit {
    /// Allows `all` concurrent tasks, and at most `of_an_address` of them for one
    /// address.
    pub(super) fn new(all: usize, of_an_address: usize) -> Self {
        Self(Arc::new(State {
            all: Arc::new(Semaphore::new(all)),
            of_an_address,
            by_address: Mutex::default(),
        }))
    }

    /// Waits for a permit.
    pub(super) async fn take(&self, client: IpAddr) -> Result<Permit, Refusal> {
        let share = self.share(client);
        // The limit of the address comes first: a client that exceeds it must not
        // occupy a permit that another client could use.
        let own = Arc::clone(&share.semaphore).acquire_owned().await;
        let all = Arc::clone(&self.0.all).acquire_owned().await;
        match (own, all) {
            (Ok(own), Ok(all)) => Ok(Permit {
                _all: all,
                _own: own,
                _share: share,
            }),
            _ => Err(failed()),
        }
    }

    /// Runs `task` once it has a permit. A task that panics is an error.
    pub(super) async fn run<T>(
        &self,
        client: IpAddr,
        task: impl Future<Output = zstn::Result<T>>,
    ) -> Result<T, Refusal> {
        let _permit = self.take(client).await?;
        let result = AssertUnwindSafe(task).catch_unwind().await;
        Ok(result.map_err(|_| failed())??)
    }

    fn share(&self, client: IpAddr) -> Share {
        let client = group(client);
        let mut by_address = self.0.by_address();
        let semaphore = by_address
            .entry(client)
            .or_insert_with(|| Arc::new(Semaphore::new(self.0.of_an_address)));
        Share {
            all: Arc::clone(&self.0),
            client,
            semaphore: Arc::clone(semaphore),
        }
    }
}

impl State {
    fn by_address(&self) -> MutexGuard<'_, HashMap<IpAddr, Arc<Semaphore>>> {
        self.by_address
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed() -> Refusal {
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    Refusal::new(status, "the gateway's work on the request failed")
}

/// The limit of one address. It is removed from the map when no request uses it.
struct Share {
    all: Arc<State>,
    client: IpAddr,
    semaphore: Arc<Semaphore>,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut by_address = self.all.by_address();
        // The share releases its semaphore while the map is locked, so that the last
        // share sees that only the map refers to it. A permit drops the permits of the
        // semaphores before its share.
        self.semaphore = Arc::new(Semaphore::new(0));
        let semaphore = by_address.get(&self.client);
        if semaphore.is_some_and(|semaphore| Arc::strong_count(semaphore) == 1) {
            by_address.remove(&self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Notify;

    use super::*;

    /// An address that uses up its share does not block another address.
    #[test]
    fn an_address_has_a_share() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let limit = Arc::new(TaskLimit::new(4, 3));
            let [slow, other] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
            let gate = Arc::new(Notify::new());
            let waiting: Vec<_> = (0..10)
                .map(|_| {
                    let (limit, gate) = (Arc::clone(&limit), Arc::clone(&gate));
                    tokio::spawn(async move {
                        let task = async {
                            gate.notified().await;
                            gate.notify_one();
                            Ok(())
                        };
                        limit.run(slow, task).await.is_ok()
                    })
                })
                .collect();
            while limit.0.all.available_permits() > 1 {
                tokio::task::yield_now().await;
            }
            assert_eq!(limit.run(other, async { Ok(7) }).await.ok(), Some(7));
            gate.notify_one();
            for task in waiting {
                assert!(task.await.unwrap());
            }
            assert!(limit.0.by_address().is_empty());
        });
    }
}
