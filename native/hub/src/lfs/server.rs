//! Requests to an LFS server that supports packed objects.

use std::fs::File;
use std::time::Duration;

use super::message::Action;
use super::meter::Stage;
use zstn::internals::{is_server, put_watched};
use zstn::source::HttpOptions;
use zstn::{Error, Location, Result};

/// Headers that concern the framing or the connection of a request. The client sets
/// them itself and ignores a server's values.
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

/// Minimum rate, in bytes per second, of a server that checks a received object before
/// it answers.
const CHECKED_BYTES_PER_SECOND: u64 = 10_000_000;

/// Returns the location of an action, and HTTP options with its headers, which are sent
/// to that origin only.
///
/// # Errors
/// [`Error::Usage`] for an invalid address or header. The message does not contain
/// header values, because they are secrets.
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
        http = http.header(&action.href, name, value)?;
    }
    Ok((Location::url(&action.href), http))
}

/// Sends an object in one PUT request.
///
/// # Errors
/// The errors of the request.
pub(super) fn send(
    action: &Action,
    stored: &File,
    len_bytes: u64,
    http: &HttpOptions,
    progress: &Stage<'_>,
) -> Result<()> {
    let (_, mut http) = request(action, http)?;
    // The server may unpack the object and check its SHA-256 before it answers.
    let checking = Duration::from_secs(len_bytes / CHECKED_BYTES_PER_SECOND);
    http.idle_timeout += checking;
    http.give_up_after += 2 * checking;
    let sent = |sent_bytes| {
        progress.at(sent_bytes, len_bytes);
        Ok(())
    };
    put_watched(&action.href, stored, len_bytes, &http, true, &sent)
}
