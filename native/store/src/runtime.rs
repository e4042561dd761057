//! The runtime whose threads wait for the network, which all of zstn shares.

use std::future::Future;
use std::io;

use tokio::runtime::Handle;

use crate::{Error, Result};

/// Returns the runtime of this process, and starts it on the first call.
pub(crate) fn shared() -> Result<&'static Handle> {
    zstn_net::runtime::handle().map_err(not_started)
}

/// Runs `work` on this thread, which may belong to another runtime, and waits for its
/// result.
pub(crate) fn wait<T>(work: impl Future<Output = T>) -> Result<T> {
    zstn_net::runtime::block_on(work).map_err(not_started)
}

/// Makes connections and timers available to `work`, whatever executor polls it.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> Result<T> {
    zstn_net::runtime::within(work).await.map_err(not_started)
}

fn not_started(source: io::Error) -> Error {
    Error::Io {
        action: "start threads for requests".into(),
        source,
    }
}
