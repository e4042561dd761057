//! Turns: how many tasks of a kind there are at a time, in all and for one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::upstream::Refusal;
use zstn_serve::group;

/// Turns for tasks of one kind.
pub(super) struct Turns(Arc<State>);

struct State {
    all: Arc<Semaphore>,
    of_an_address: usize,
    /// Addresses that have turns, or wait for one.
    by_address: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
}

/// A turn, which ends when this is dropped.
pub(super) struct Turn {
    _all: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
    _share: Share,
}

impl Turns {
    /// Gives `all` turns at a time, of which one address has at most `of_an_address`.
    pub(super) fn new(all: usize, of_an_address: usize) -> Self {
        Self(Arc::new(State {
            all: Arc::new(Semaphore::new(all)),
            of_an_address,
            by_address: Mutex::default(),
        }))
    }

    /// Waits for a turn.
    pub(super) async fn take(&self, client: IpAddr) -> Result<Turn, Refusal> {
        let share = self.share(client);
        // A client that has its share waits for itself before it waits for others.
        let own = Arc::clone(&share.turns).acquire_owned().await;
        let all = Arc::clone(&self.0.all).acquire_owned().await;
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
    /// threads than turns, so that a slow upstream leaves some for other work. The turn
    /// ends with the task, also when no client waits for it.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        client: IpAddr,
        task: impl FnOnce() -> zstn::Result<T> + Send + 'static,
    ) -> Result<T, Refusal> {
        let turn = self.take(client).await?;
        let task = move || {
            let _turn = turn;
            task()
        };
        let result = tokio::task::spawn_blocking(task).await;
        Ok(result.map_err(|_| failed())??)
    }

    fn share(&self, client: IpAddr) -> Share {
        let client = group(client);
        let mut by_address = self.0.by_address();
        let turns = by_address
            .entry(client)
            .or_insert_with(|| Arc::new(Semaphore::new(self.0.of_an_address)));
        Share {
            all: Arc::clone(&self.0),
            client,
            turns: Arc::clone(turns),
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

/// The turns of one address, which are forgotten when no request wants one.
struct Share {
    all: Arc<State>,
    client: IpAddr,
    turns: Arc<Semaphore>,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut by_address = self.all.by_address();
        // This share gives its turns back while the map cannot change, so that the last
        // one sees that it is. Permits are dropped before their shares.
        self.turns = Arc::new(Semaphore::new(0));
        let turns = by_address.get(&self.client);
        if turns.is_some_and(|turns| Arc::strong_count(turns) == 1) {
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
            while turns.0.all.available_permits() > 1 {
                tokio::task::yield_now().await;
            }
            assert_eq!(turns.run(other, || Ok(7)).await.ok(), Some(7));
            drop(gate);
            for task in waiting {
                assert!(task.await.unwrap());
            }
            assert!(turns.0.by_address().is_empty());
        });
    }
}
