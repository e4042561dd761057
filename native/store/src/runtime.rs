//! The threads that make requests.

use std::future::Future;
use std::io;
use std::sync::OnceLock;
use std::sync::mpsc;

use tokio::runtime::{Builder, Runtime};

use crate::{Error, Result};

/// Requests wait far more than they compute; two threads also sign parts while
/// others are sent.
const THREADS: usize = 2;

/// Returns the runtime of this process.
pub(crate) fn shared() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("zstn-store")
            .enable_all()
            .build()
            .map_err(|error| error.to_string())
    });
    runtime.as_ref().map_err(|error| Error::Io {
        action: "start threads for requests".into(),
        source: io::Error::other(error.clone()),
    })
}

/// Runs `work` and waits for its result. Unlike `block_on`, this does not panic
/// in a thread that belongs to another runtime.
pub(crate) fn wait<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    shared()?.spawn(async move {
        // Fails only if nobody waits any more.
        let _ = sender.send(work.await);
    });
    receiver.recv().map_err(|_| Error::Io {
        action: "finish a request".into(),
        source: io::Error::other("its thread has ended"),
    })
}
