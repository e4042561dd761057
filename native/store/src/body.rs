//! Receives the body of a response: exactly the requested bytes, at a minimum pace.

use std::time::Duration;

use futures_util::TryStreamExt;
use object_store::{Attribute, GetResult};
use tokio::time::{Instant, timeout_at};

/// Number of bytes that have to arrive within the idle time. Without a minimum, a
/// server that sends a byte now and then would never run into a time limit.
const PACE_BYTES: usize = 32 << 10;

/// The reason why a body could not be received completely.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The request failed in the `object_store` crate.
    Store(object_store::Error),
    /// The body has this content encoding, so its bytes are not the object's.
    Encoded(String),
    /// The body is longer than the requested range.
    TooLong,
    /// The body ended early, or fewer than [`PACE_BYTES`] arrived within the idle time.
    /// The rest can be requested again.
    Halted,
}

/// Appends a body of `len_bytes` to `into`.
///
/// # Errors
/// A [`Fault`]; bytes received before it remain in `into`.
pub(crate) async fn receive(
    result: GetResult,
    len_bytes: u64,
    idle: Duration,
    into: &mut Vec<u8>,
) -> Result<(), Fault> {
    let coding = result.attributes.get(&Attribute::ContentEncoding);
    if let Some(coding) = coding.filter(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return Err(Fault::Encoded(coding.to_string()));
    }
    let len = usize::try_from(len_bytes).map_err(|_| Fault::TooLong)?;
    into.try_reserve_exact(len).map_err(|error| {
        Fault::Store(object_store::Error::Generic {
            store: "memory",
            source: Box::new(error),
        })
    })?;
    let end = into.len() + len;
    let mut body = result.into_stream();
    let (mut mark, mut deadline) = (into.len(), Instant::now() + idle);
    loop {
        let Ok(next) = timeout_at(deadline, body.try_next()).await else {
            return Err(Fault::Halted);
        };
        let Some(chunk) = next.map_err(Fault::Store)? else {
            break;
        };
        if chunk.len() > end - into.len() {
            return Err(Fault::TooLong);
        }
        into.extend_from_slice(&chunk);
        if into.len() - mark >= PACE_BYTES {
            (mark, deadline) = (into.len(), Instant::now() + idle);
        }
    }
    match into.len() == end {
        true => Ok(()),
        false => Err(Fault::Halted),
    }
}
