//! Routes requests and answers them.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use axum::response::Response;
use futures_util::{TryStreamExt, stream};
use headers::{ContentType, ETag};
use hyper::body::Incoming;
use serde_json::Value;

use super::answer_cache::EntryCache;
use super::listing::{Listing, NAMES_AT_ONCE};
use super::metrics::{Metrics, Route};
use super::packed_files::PackedFiles;
use super::path_rules::{check_name, paths};
use super::request::{Asked, Revision};
use super::task_limit::TaskLimit;
use super::upstream::{Page, Permissions, Refusal, Upstream};
use crate::hub::Repository;
use zstn_serve::access::{Access, Reader};
use zstn_serve::answer::insert;
use zstn_serve::connections::Peer;
use zstn_serve::file::About;
use zstn_serve::listening::LoggedSite;
use zstn_serve::path::packed_path;
use zstn_serve::{Handle, Note, Served, answer as plain_answer};

/// Maximum length of a `paths-info` body, in bytes.
const MAX_PATHS_BYTES: usize = 1 << 20;

/// Time limit for receiving the body of a `paths-info` request.
const BODY_TIME: Duration = Duration::from_secs(10);

/// Maximum number of paths in such a body. Clients send at most 1000 per request.
const MAX_PATHS: usize = 2000;

/// Number of lists that are made concurrently; one address may use half of them.
pub(super) const MAX_LISTS: usize = 64;

/// The methods that browsers may use from other origins.
const METHODS: &str = "GET, HEAD, POST";
const REQUEST_HEADERS: &str = "authorization, content-type, range, if-match, if-none-match, \
                               if-range, if-unmodified-since";
const EXPOSED_HEADERS: &str = "accept-ranges, content-length, content-range, etag, last-modified, \
                               link, location, x-error-code, x-error-message, x-linked-etag, \
                               x-linked-size, x-repo-commit";

pub(super) struct Site {
    pub(super) upstream: Arc<Upstream>,
    pub(super) access: Access,
    pub(super) entries: Arc<EntryCache>,
    pub(super) packed: Arc<PackedFiles>,
    pub(super) lists: Arc<TaskLimit>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) handle: Handle,
}

impl LoggedSite for Site {
    async fn answer(&self, request: Request<Incoming>) -> (Response, Served) {
        let start = Instant::now();
        let (parts, body) = request.into_parts();
        let checked = self.access.check_host(&parts);
        let (reader, mut answer, note) = match checked {
            Ok(()) => {
                let reader = self.access.reader(&parts.headers);
                let answer = self.answer_to(&reader, &parts, body).await;
                (reader, answer, None)
            }
            Err((status, note)) => {
                let refused =
                    Answer::of(plain_answer::plain(status, &note.to_string()), Route::Own);
                (Reader::Same, refused, Some(note))
            }
        };
        let varies = self.access.varies();
        let headers = answer.response.headers_mut();
        plain_answer::allow(headers, &reader, varies, EXPOSED_HEADERS);
        let status = answer.response.status().as_u16();
        let seconds = start.elapsed().as_secs_f64();
        let is_file = parts.method == Method::GET && matches!(status, 200 | 206);
        let file_bytes = if is_file { answer.body_bytes } else { 0 };
        self.metrics
            .count(answer.route, status, file_bytes, seconds);
        let note = match reader {
            Reader::Foreign(origin) => note.or(Some(Note::foreign_origin(origin))),
            _ => note,
        };
        let served = Served::new(&parts, status, answer.body_bytes, note);
        (answer.response, served)
    }
}

impl Site {
    async fn answer_to(&self, reader: &Reader, parts: &Parts, body: Incoming) -> Answer {
        if parts.method == Method::OPTIONS {
            let answer = plain_answer::options(reader, &parts.headers, METHODS, REQUEST_HEADERS);
            return Answer::of(answer, Route::Own);
        }
        let permissions = Permissions::of(&parts.headers);
        let asked = match Asked::of(&parts.method, &parts.uri) {
            Ok(asked) => asked,
            Err(refusal) => return Answer::of(refusal.answer(), Route::Other),
        };
        let route = match asked {
            Asked::Health | Asked::Metrics => Route::Own,
            Asked::Info { .. } | Asked::Tree { .. } | Asked::PathsInfo(_) => Route::List,
            Asked::File { .. } => Route::File,
            Asked::Other => Route::Other,
        };
        let answered = match asked {
            Asked::Health => Ok(Answer::of(plain_answer::plain(StatusCode::OK, "ok"), route)),
            Asked::Metrics => Ok(self.figures()),
            Asked::Info {
                repository,
                revision,
            } => self.info(repository, revision, parts, &permissions).await,
            Asked::Tree { revision, folder } => {
                self.tree(&revision, &folder, parts, &permissions).await
            }
            Asked::PathsInfo(revision) => {
                self.paths_info(&revision, parts, body, &permissions).await
            }
            Asked::File { revision, path } => {
                self.file(&revision, &path, parts, body, &permissions).await
            }
            Asked::Other => self.other(parts, body).await,
        };
        answered.unwrap_or_else(|refusal| Answer::of(refusal.answer(), route))
    }

    fn figures(&self) -> Answer {
        let decoded_bytes = self.packed.decoded.held_bytes();
        let text = self.metrics.text(self.handle.connections(), decoded_bytes);
        let body_bytes = text.len() as u64;
        let mut response = Response::new(Body::from(text));
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        let kind = HeaderValue::from_static(kind);
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        Answer {
            response,
            body_bytes,
            route: Route::Own,
        }
    }

    fn listing(&self, revision: &Revision, parts: &Parts, permissions: &Permissions) -> Listing {
        Listing {
            upstream: Arc::clone(&self.upstream),
            packed: Arc::clone(&self.packed),
            revision: revision.clone(),
            permissions: permissions.clone(),
            client: client(parts),
        }
    }

    async fn info(
        &self,
        repository: Repository,
        revision: Option<String>,
        parts: &Parts,
        permissions: &Permissions,
    ) -> Result<Answer, Refusal> {
        let query = parts.uri.query();
        let info = self
            .upstream
            .info(&repository, revision.as_deref(), query, permissions);
        let mut info = info.await?;
        let permit = self.lists.take(client(parts)).await?;
        // The description lists the files of this commit.
        let commit = info.value.get("sha").and_then(Value::as_str);
        let name = commit.or(revision.as_deref()).unwrap_or("main").to_owned();
        check_name(&name)?;
        let revision = Revision { repository, name };
        let listing = self.listing(&revision, parts, permissions);
        let shown = listing.info(std::mem::take(&mut info.value)).await?;
        let answer = json(&shown);
        drop(permit);
        Ok(answer)
    }

    async fn tree(
        &self,
        revision: &Revision,
        folder: &str,
        parts: &Parts,
        permissions: &Permissions,
    ) -> Result<Answer, Refusal> {
        let query = parts.uri.query();
        let page = self.upstream.tree(revision, folder, query, permissions);
        let mut page = page.await?;
        let next = page.next.take();
        let mut list = ShownList {
            page,
            listing: self.listing(revision, parts, permissions),
            limit: Arc::clone(&self.lists),
            has_entries: false,
        };
        let first = list.group().await?;
        let mut answer = match list.page.is_over() {
            true => json_text(format!("[{first}]")),
            false => Answer {
                body_bytes: 0,
                ..json_body(list.body(format!("[{first}")))
            },
        };
        if let Some(next) = next {
            let link = format!("<{}{next}>; rel=\"next\"", origin(parts));
            insert(&mut answer.response, header::LINK, &link);
        }
        Ok(answer)
    }

    async fn paths_info(
        &self,
        revision: &Revision,
        parts: &Parts,
        body: Incoming,
        permissions: &Permissions,
    ) -> Result<Answer, Refusal> {
        let _permit = self.lists.take(client(parts)).await?;
        let body = tokio::time::timeout(BODY_TIME, to_bytes(Body::new(body), MAX_PATHS_BYTES));
        let body = body
            .await
            .map_err(|_| Refusal::new(StatusCode::REQUEST_TIMEOUT, "the body takes too long"))?;
        let body =
            body.map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error.to_string()))?;
        let (asked, is_expanded) = paths(parts, &body)?;
        if asked.len() > MAX_PATHS {
            let message = format!("at most {MAX_PATHS} paths can be requested");
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        let asked: Vec<_> = asked.iter().map(|path| path.trim_matches('/')).collect();
        let asked = asked.into_iter().filter(|path| !path.is_empty());
        let asked: BTreeSet<String> = asked.map(ToOwned::to_owned).collect();
        asked.iter().try_for_each(|path| check_name(path))?;
        let packed = asked.iter().filter_map(|path| packed_path(path));
        let all: BTreeSet<String> = asked.iter().cloned().chain(packed).collect();
        let all: Vec<String> = all.into_iter().collect();
        let listing = self.listing(revision, parts, permissions);
        let mut shown = Vec::new();
        for paths in all.chunks(NAMES_AT_ONCE) {
            let found = self
                .upstream
                .paths_info(revision, paths, is_expanded, permissions);
            shown.extend(listing.entries(found.await?).await?);
        }
        let was_asked = |entry: &Value| {
            let path = entry.get("path").and_then(Value::as_str);
            path.is_some_and(|path| asked.contains(path))
        };
        let shown: Vec<_> = shown.into_iter().filter(was_asked).collect();
        Ok(json(&shown.into()))
    }

    async fn other(&self, parts: &Parts, body: Incoming) -> Result<Answer, Refusal> {
        match &*self.upstream {
            Upstream::Hub(hub) => {
                let request = Request::from_parts(parts.clone(), body);
                Ok(Answer::passed(hub.pass(request).await, Route::Other))
            }
            Upstream::Folder(folder) => match Asked::refs(&parts.method, &parts.uri) {
                Some(repository) => Ok(json(&folder.refs(&repository).await?)),
                None => {
                    let message =
                        "this hub is a folder of files, which can be read and not changed";
                    Err(Refusal::new(StatusCode::NOT_FOUND, message))
                }
            },
        }
    }
}

/// Returns the IP address of the client that sent a request, or 0.0.0.0 if it is unknown.
pub(super) fn client(parts: &Parts) -> IpAddr {
    let peer = parts.extensions.get::<Peer>();
    peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0)
}

/// A list that is produced while the client reads it.
struct ShownList {
    page: Page,
    listing: Listing,
    limit: Arc<TaskLimit>,
    has_entries: bool,
}

impl ShownList {
    /// Returns the JSON text of the next entries.
    async fn group(&mut self) -> Result<String, Refusal> {
        let entries = self.page.group().await?;
        let _permit = self.limit.take(self.listing.client).await?;
        let mut text = String::new();
        for entry in self.listing.entries(entries).await? {
            if std::mem::replace(&mut self.has_entries, true) {
                text.push(',');
            }
            text += &entry.to_string();
        }
        Ok(text)
    }

    /// Returns a response body that begins with `first`. An error ends the body early.
    fn body(self, first: String) -> Body {
        let state = (Some(first), Some(self));
        let texts = stream::try_unfold(state, |(first, list)| async move {
            if let Some(first) = first {
                return Ok(Some((first, (None, list))));
            }
            let Some(mut list) = list else {
                return Ok(None);
            };
            if list.page.is_over() {
                return Ok(Some(("]".to_owned(), (None, None))));
            }
            let text = list.group().await;
            let text = text.map_err(|_| io::Error::other("the list cannot be continued"))?;
            Ok::<_, io::Error>(Some((text, (None, Some(list)))))
        });
        // Groups can be empty; empty chunks are not sent.
        Body::from_stream(texts.try_filter(|text| std::future::ready(!text.is_empty())))
    }
}

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
