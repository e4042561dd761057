//! The rules for paths in requests. A checked path becomes part of upstream addresses
//! and of cache keys, and means the same file in all of them.

use axum::http::{StatusCode, Uri};
use percent_encoding::percent_decode_str;

use super::upstream::Refusal;
use zstn_serve::path::MAX_PATH_BYTES;

/// Maximum length of a request's query, in bytes. Hubs put the cursors of lists there.
const MAX_QUERY_BYTES: usize = 8 << 10;

/// Refuses a request whose path is too long or could lead to another place than the one
/// it names.
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
    // The root has no components, and a trailing slash does not begin one.
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() && uri.path() == "/" {
        return Ok(());
    }
    path.split('/')
        .try_for_each(|component| decoded(component).map(|_| ()))
}

/// Percent-decodes one path component, or several separated by slashes, exactly once.
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

/// Refuses the decoded name of a file or a revision by the same rules as [`check`].
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
