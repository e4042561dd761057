//! The rules for paths in requests. A path that passes them once becomes part of
//! addresses of the upstream and of keys of caches, and means the same file in all of
//! them.

use axum::http::{StatusCode, Uri};
use percent_encoding::percent_decode_str;

use super::upstream::Refusal;
use zstn_serve::path::MAX_PATH_BYTES;

/// The longest query of a request, in bytes. Hubs put cursors of lists there.
const MAX_QUERY_BYTES: usize = 8 << 10;

/// Refuses a request whose path is too long or could mean another place than the one
/// that it names.
///
/// # Errors
/// 414 for a long path or query; 400 for components that are empty, `.` or `..`,
/// percent-encoded or not, for `\\`, control characters, bytes that are not UTF-8, and
/// `%` without two hexadecimal digits.
pub(super) fn check(uri: &Uri) -> Result<(), Refusal> {
    let path = uri.path();
    let query = uri.query().unwrap_or_default();
    if path.len() > MAX_PATH_BYTES || query.len() > MAX_QUERY_BYTES {
        let message = format!(
            "the address is too long: its path may have {MAX_PATH_BYTES} bytes and its query \
             {MAX_QUERY_BYTES}"
        );
        return Err(Refusal::new(StatusCode::URI_TOO_LONG, message));
    }
    let Some(path) = path.strip_prefix('/') else {
        return Err(malformed("it does not begin with a slash"));
    };
    // The root has no components, and a slash at the end begins none.
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() && uri.path() == "/" {
        return Ok(());
    }
    path.split('/')
        .try_for_each(|component| decoded(component).map(|_| ()))
}

/// Decodes a component of a path, or several with slashes between them, once.
///
/// # Errors
/// The errors of [`check`].
pub(super) fn decoded(text: &str) -> Result<String, Refusal> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('%') {
        let digits = after.as_bytes().get(..2);
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            return Err(malformed("a % is not followed by two hexadecimal digits"));
        }
        rest = &after[2..];
    }
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded.map_err(|_| malformed("it is not UTF-8"))?;
    check_name(&decoded)?;
    Ok(decoded.into_owned())
}

/// Refuses the decoded name of a file or a revision, as [`check`] does.
///
/// # Errors
/// The errors of [`check`].
pub(super) fn check_name(name: &str) -> Result<(), Refusal> {
    if name.len() > MAX_PATH_BYTES {
        let message = format!("a name may have at most {MAX_PATH_BYTES} bytes");
        return Err(Refusal::new(StatusCode::URI_TOO_LONG, message));
    }
    if name.contains('\\') || name.chars().any(char::is_control) {
        return Err(malformed("it contains a backslash or a control character"));
    }
    match name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        true => Err(malformed("a component of it is empty, . or ..")),
        false => Ok(()),
    }
}

fn malformed(reason: &str) -> Refusal {
    let message = format!("the path is refused: {reason}");
    Refusal::new(StatusCode::BAD_REQUEST, message)
}
