//! Parses the paths that a client requests information about.

use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use serde_json::Value;

use super::upstream::Refusal;

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
            let decoded = percent_encoding::percent_decode_str(value).decode_utf8();
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
