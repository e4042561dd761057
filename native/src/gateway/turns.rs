//! Turns: how many tasks of a kind there are at a time, in all and for one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::upstream::Refusal;
use crate::serve::group;

/// Turns for tasks of one kind.
pub(super) struct Turns {
    all: Semaphore,
    of_an_address: usize,
    /// Addresses that have turns, or wait for one.
    by_address: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
}

/// A turn, which ends when this is dropped.
pub(super) struct Turn<'a> {
    _all: SemaphorePermit<'a>,
    _own: tokio::sync::OwnedSemaphorePermit,
    _share: Share<'a>,
}

impl Turns {
    /// Gives `all` turns at a time, of which one address has at most `of_an_address`.
    pub(super) fn new(all: usize, of_an_address: usize) -> Self {
        Self {
            all: Semaphore::new(all),
            of_an_address,
            by_address: Mutex::default(),
        }
    }

    /// Waits for a turn.
    pub(super) async fn take(&self, client: IpAddr) -> Result<Turn<'_>, Refusal> {
        let share = self.share(client);
        // A client that has its share waits for itself before it waits for others.
        let own = Arc::clone(&share.turns).acquire_owned().await;
        let all = self.all.acquire().await;
        match (own, all) {
            (Ok(own), Ok(all)) => Ok(Turn {
                _all: all,
                _own: own,
                _share: share,
            }),
            _ => Err(failed()),
        }
    }

    /// Runs `task` on a thread that may wait, when it is its turn. The runtime has more
    /// threads than turns, so that a slow upstream leaves some for other work.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        client: IpAddr,
        task: impl FnOnce() -> crate::Result<T> + Send + 'static,
    ) -> Result<T, Refusal> {
        let turn = self.take(client).await?;
        let result = tokio::task::spawn_blocking(task).await;
        drop(turn);
        Ok(result.map_err(|_| failed())??)
    }

    fn share(&self, client: IpAddr) -> Share<'_> {
        let client = group(client);
        let mut by_address = self.by_address();
        let turns = by_address
            .entry(client)
            .or_insert_with(|| Arc::new(Semaphore::new(self.of_an_address)));
        Share {
            all: self,
            client,
            turns: Arc::clone(turns),
        }
    }

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

/// The turns of one address, which are forgotten when no request wants one.
struct Share<'a> {
    all: &'a Turns,
    client: IpAddr,
    turns: Arc<Semaphore>,
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let mut by_address = self.all.by_address();
        // The map and this share have it. Permits are dropped before their shares.
        if Arc::strong_count(&self.turns) == 2 {
            by_address.remove(&self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Whatever one address waits for, another one gets its turn.
    #[test]
    fn an_address_has_a_share() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let turns = Arc::new(Turns::new(4, 3));
            let [slow, other] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
            let (gate, closed) = mpsc::channel::<()>();
            let closed = Arc::new(Mutex::new(closed));
            let waiting: Vec<_> = (0..10)
                .map(|_| {
                    let (turns, closed) = (Arc::clone(&turns), Arc::clone(&closed));
                    tokio::spawn(async move {
                        let task = move || {
                            // The gate has been opened, or the test is over.
                            let _ = closed.lock().unwrap().recv();
                            Ok(())
                        };
                        turns.run(slow, task).await.is_ok()
                    })
                })
                .collect();
            while turns.all.available_permits() > 1 {
                tokio::task::yield_now().await;
            }
            assert_eq!(turns.run(other, || Ok(7)).await.ok(), Some(7));
            drop(gate);
            for task in waiting {
                assert!(task.await.unwrap());
            }
            assert!(turns.by_address().is_empty());
        });
    }
}
