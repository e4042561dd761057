//! The runtime whose threads make the requests.

use std::future::Future;
use std::io;
use std::sync::OnceLock;
use std::sync::mpsc;

use tokio::runtime::{Builder, Runtime};

use crate::{Error, Result};

/// Number of threads. Requests wait far more than they compute; with two threads, one
/// can sign parts while the other sends.
const THREADS: usize = 2;

/// Returns the runtime that the whole process shares, and starts it on the first call.
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

/// Runs `work` and waits for its result. Unlike `block_on`, this does not panic on a
/// thread of another runtime.
pub(crate) fn wait<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    shared()?.spawn(async move {
        // Sending fails only if the caller no longer waits.
        let _ = sender.send(work.await);
    });
    receiver.recv().map_err(|_| Error::Io {
        action: "finish a request".into(),
        source: io::Error::other("its thread has ended"),
    })
}
