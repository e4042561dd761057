//! Responses and their headers.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Response;
use headers::{ContentType, ETag};
use serde_json::Value;

use super::metrics::Route;
use zstn_serve::answer::About;

/// A response with the length of its body (0 if unknown) and the route to count it
/// under.
pub(super) struct Answer {
    pub(super) response: Response,
    pub(super) body_bytes: u64,
    pub(super) route: Route,
}

impl Answer {
    pub(super) fn of((response, body_bytes): (Response, u64), route: Route) -> Self {
        Self {
            response,
            body_bytes,
            route,
        }
    }

    pub(super) fn passed(response: Response, route: Route) -> Self {
        let len = response.headers().get(header::CONTENT_LENGTH);
        let len = len.and_then(|len| len.to_str().ok()?.parse().ok());
        Self::of((response, len.unwrap_or(0)), route)
    }
}

pub(super) fn about(tag: &str, len_bytes: u64, content_type: ContentType) -> About {
    let tag: ETag = format!("\"{tag}\"")
        .parse()
        .expect("hex digits make an ETag");
    About {
        len_bytes,
        tag,
        modified: None,
        content_type,
    }
}

pub(super) fn json(value: &Value) -> Answer {
    json_text(value.to_string())
}

pub(super) fn json_text(text: String) -> Answer {
    Answer {
        body_bytes: text.len() as u64,
        ..json_body(Body::from(text))
    }
}

pub(super) fn json_body(body: Body) -> Answer {
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Answer {
        response,
        body_bytes: 0,
        route: Route::List,
    }
}

pub(super) fn insert(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::try_from(value) {
        response.headers_mut().insert(name, value);
    }
}

/// Returns the origin under which the client reached this gateway, from the headers
/// `X-Forwarded-Proto` and `Host`.
pub(super) fn origin(parts: &Parts) -> String {
    let text = |name: &str| parts.headers.get(name)?.to_str().ok();
    let scheme = match text("x-forwarded-proto") {
        Some("https") => "https",
        _ => "http",
    };
    format!("{scheme}://{}", text("host").unwrap_or_default())
}
