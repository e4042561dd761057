//! The rules for paths in requests, in addresses and in bodies. A checked path becomes
//! part of upstream addresses and of cache keys, and means the same file in all of them.

use axum::http::request::Parts;
use axum::http::{StatusCode, Uri, header};
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::upstream::Refusal;
use zstn_serve::path::MAX_PATH_BYTES;

/// Maximum length of a request's query, in bytes. Hubs put the cursors of lists there.
const MAX_QUERY_BYTES: usize = 8 << 10;

/// Refuses a request whose path is too long or could lead to another file than the one it
/// names.
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

/// Returns the paths in the body of a `paths-info` request, which is JSON or a form,
/// and whether the client also requests their last commits.
pub(super) fn paths(parts: &Parts, body: &[u8]) -> Result<(Vec<String>, bool), Refusal> {
    let malformed = || {
        let message = "the body has to be like {\"paths\": [\"model.safetensors\"]}";
        Refusal::new(StatusCode::BAD_REQUEST, message)
    };
    let kind = parts.headers.get(header::CONTENT_TYPE);
    let is_form = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-www-form"));
    if is_form {
        let text = str::from_utf8(body)
            .map_err(|_| malformed())?
            .replace('+', " ");
        let fields = text.split('&').filter_map(|field| field.split_once('='));
        let decode = |value: &str| {
            let decoded = percent_decode_str(value).decode_utf8();
            decoded
                .map(std::borrow::Cow::into_owned)
                .map_err(|_| malformed())
        };
        let mut asked = Vec::new();
        let mut is_expanded = false;
        for (name, value) in fields {
            match name {
                "paths" => asked.push(decode(value)?),
                "expand" => is_expanded = value.eq_ignore_ascii_case("true"),
                _ => {}
            }
        }
        return Ok((asked, is_expanded));
    }
    let value: Value = serde_json::from_slice(body).map_err(|_| malformed())?;
    let paths = match value.get("paths") {
        Some(Value::String(path)) => vec![path.clone()],
        Some(Value::Array(paths)) => {
            let paths = paths
                .iter()
                .map(|path| path.as_str().map(ToOwned::to_owned));
            paths.collect::<Option<_>>().ok_or_else(malformed)?
        }
        _ => return Err(malformed()),
    };
    let is_expanded = value.get("expand").and_then(Value::as_bool);
    Ok((paths, is_expanded.unwrap_or(false)))
}
