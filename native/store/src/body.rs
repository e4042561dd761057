//! The body of an answer: exactly the bytes asked for, at a reasonable pace.

use std::time::Duration;

use futures_util::TryStreamExt;
use object_store::{Attribute, GetResult};
use tokio::time::{Instant, timeout_at};

/// Bytes that have to arrive within the idle time. A server that sends a byte now
/// and then would be waited for without end.
const PACE_BYTES: usize = 32 << 10;

/// Why a body ended before all of it was there.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The library's error.
    Store(object_store::Error),
    /// What came is not the object itself.
    Encoded(String),
    /// More than was asked for.
    TooLong,
    /// The end came early, or next to nothing came for too long. The rest may be
    /// asked for again.
    Halted,
}

/// Appends a body of `len_bytes` to `into`.
///
/// # Errors
/// A [`Fault`]; what had arrived by then stays in `into`.
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
