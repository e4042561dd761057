//! Requests to a server that has agreed on packed objects.

use std::fs::File;
use std::time::Duration;

use super::message::Action;
use super::meter::Stage;
use zstn::internals::{is_server, put_watched};
use zstn::source::HttpOptions;
use zstn::{Error, Location, Result};

/// Headers that say how a request is framed or connected. A server may list them,
/// but they are the client's to set.
const FRAMING: [&str; 10] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The rate, in bytes per second, at which a server is expected at least to check
/// what it has received before it answers.
const CHECKED_BYTES_PER_SECOND: u64 = 10_000_000;

/// Returns the location of an action, and the options with its headers, which go
/// to its origin alone.
///
/// # Errors
/// [`Error::Usage`] for an address or a header that cannot be used. It does not
/// repeat values, which are secrets.
pub(super) fn request(action: &Action, http: &HttpOptions) -> Result<(Location, HttpOptions)> {
    if !is_server(&action.href) {
        return Err(Error::Usage(
            "the server named an address that is not one of http or https".into(),
        ));
    }
    let mut http = http.clone();
    for (name, value) in action.header.iter().flatten() {
        if FRAMING.contains(&&*name.to_ascii_lowercase()) {
            continue;
        }
        http = http.with_header(&action.href, name, value)?;
    }
    Ok((Location::url(&action.href), http))
}

/// Sends an object by one PUT request.
///
/// # Errors
/// Those of the request.
pub(super) fn send(
    action: &Action,
    stored: &File,
    len_bytes: u64,
    http: &HttpOptions,
    progress: &Stage<'_>,
) -> Result<()> {
    let (_, mut http) = request(action, http)?;
    // A good server unpacks an object and compares it with its name first.
    let checking = Duration::from_secs(len_bytes / CHECKED_BYTES_PER_SECOND);
    http.idle_timeout += checking;
    http.give_up_after += 2 * checking;
    let sent = |sent_bytes| {
        progress.at(sent_bytes, len_bytes);
        Ok(())
    };
    put_watched(&action.href, stored, len_bytes, &http, true, &sent)
}
