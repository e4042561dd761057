//! Requests to a server that has agreed on packed objects.

use std::fs::File;

use super::message::Action;
use super::meter::Stage;
use crate::source::{HttpOptions, is_server, put_watched};
use crate::{Error, Location, Result};

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
    let (_, http) = request(action, http)?;
    let sent = |sent_bytes| progress.at(sent_bytes, len_bytes);
    put_watched(&action.href, stored, len_bytes, &http, true, &sent)
}
