//! A model hub as an upstream.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zstn_net::client::builder;
use zstn_net::proxy::Proxies;
use zstn_net::retry::backoff;
use zstn_net::shown;

use super::arriving_list::{ArrivingList, too_long};
use super::{Entry, Page, PageEntries, Permissions, Refusal};
use crate::gateway::request::Revision;
use crate::gateway::{path_rules, request};
use crate::hub::Repository;
use zstn::internals::offline;
use zstn::source::{HttpOptions, Remote};
use zstn::{AsyncSource, Error, Result};
use zstn_core::limits::HEAD_LEN_BYTES;

/// Maximum length of a list or description, in bytes.
pub(super) const MAX_JSON_BYTES: usize = 16 << 20;

/// An answer of up to this many bytes is read immediately. At most `LONG_TEXTS` longer
/// ones are read at the same time, each within `LONG_TIME`.
const SHORT_BYTES: usize = 512 << 10;

/// Maximum number of longer answers in memory.
const LONG_TEXTS: usize = 4;

/// The time limit for waiting to read a longer answer, and again for reading it.
const LONG_TIME: Duration = Duration::from_secs(60);

/// Maximum length of a file's ETag, and of a commit name, in bytes.
const MAX_TAG_BYTES: usize = 256;

/// Maximum number of bytes of an error's body that are passed to the client.
const MAX_ERROR_BYTES: usize = 4 << 10;

/// Maximum number of consecutive relative redirects. Hubs use them for renamed
/// repositories and for small files.
const MAX_REDIRECTS: usize = 5;

/// A client of one hub.
#[derive(Debug)]
pub(in super::super) struct Hub {
    pub(super) endpoint: String,
    /// The endpoint as it is shown in messages.
    name: String,
    pub(super) client: reqwest::Client,
    pub(super) http: HttpOptions,
    long_texts: Arc<Semaphore>,
}

/// A JSON value with the permit that limits how many long answers are in memory; the
/// permit is `None` for a short answer.
pub(in super::super) struct Loaded {
    pub(in super::super) value: Value,
    _turn: Option<OwnedSemaphorePermit>,
}

impl From<Value> for Loaded {
    fn from(value: Value) -> Self {
        Self { value, _turn: None }
    }
}

impl Hub {
    pub(super) fn new(endpoint: &str, http: &HttpOptions) -> Result<Self> {
        offline::check(&shown::address(endpoint))?;
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        let client = client(&endpoint, http).map_err(|error| {
            Error::Usage(format!(
                "connections to {} cannot be set up: {error}",
                shown::address(&endpoint)
            ))
        })?;
        Ok(Self {
            name: shown::address(&endpoint).into_owned(),
            endpoint,
            client,
            http: http.clone(),
            long_texts: Arc::new(Semaphore::new(LONG_TEXTS)),
        })
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        permissions: &Permissions,
    ) -> reqwest::RequestBuilder {
        let url = format!("{}/{}", self.endpoint, path.trim_start_matches('/'));
        let request = self.client.request(method, url);
        match permissions.value() {
            Some(value) => request.header(header::AUTHORIZATION, value),
            None => request,
        }
    }

    /// Sends a request. An answer with an error status becomes a refusal.
    async fn send(&self, request: reqwest::RequestBuilder) -> Result<reqwest::Response, Refusal> {
        let answer = request.send().await;
        let answer = answer.map_err(|error| Refusal::unanswered(&self.endpoint, &error))?;
        let status = answer.status();
        if status.is_success() || status.is_redirection() {
            return Ok(answer);
        }
        let headers = answer.headers().clone();
        let (mut answer, mut body) = (answer, Vec::new());
        // If the body breaks off, the bytes that have arrived are used.
        let _ = self.body(&mut answer, &mut body, MAX_ERROR_BYTES).await;
        body.truncate(MAX_ERROR_BYTES);
        let body = String::from_utf8_lossy(&body);
        Err(Refusal::of_answer(status, &headers, &body))
    }

    /// Reads the body of an answer until its end or until it is longer than
    /// `enough_bytes`.
    async fn body(
        &self,
        answer: &mut reqwest::Response,
        body: &mut Vec<u8>,
        enough_bytes: usize,
    ) -> Result<(), Refusal> {
        let fail = |error: reqwest::Error| Refusal::unanswered(&self.endpoint, &error);
        while body.len() <= enough_bytes
            && let Some(part) = answer.chunk().await.map_err(fail)?
        {
            body.extend_from_slice(&part);
        }
        Ok(())
    }

    /// Sends a request whose answer is JSON. A redirect becomes a refusal.
    async fn ask(&self, request: reqwest::RequestBuilder) -> Result<reqwest::Response, Refusal> {
        let answer = self.send(request).await?;
        match answer.status().is_redirection() {
            true => Err(Refusal::of_answer(
                answer.status(),
                answer.headers(),
                "moved",
            )),
            false => Ok(answer),
        }
    }

    async fn json(&self, mut answer: reqwest::Response) -> Result<Loaded, Refusal> {
        let mut body = Vec::new();
        self.body(&mut answer, &mut body, SHORT_BYTES).await?;
        let mut turn = None;
        if body.len() > SHORT_BYTES {
            let too_slow = |_| {
                let message = format!("{} takes too long to send a long answer", self.name);
                Refusal::new(StatusCode::GATEWAY_TIMEOUT, message)
            };
            let long_texts = Arc::clone(&self.long_texts).acquire_owned();
            let waited = tokio::time::timeout(LONG_TIME, long_texts).await;
            turn = waited.map_err(too_slow)?.ok();
            let rest = self.body(&mut answer, &mut body, MAX_JSON_BYTES);
            tokio::time::timeout(LONG_TIME, rest)
                .await
                .map_err(too_slow)??;
        }
        if body.len() > MAX_JSON_BYTES {
            return Err(too_long(&self.name));
        }
        let value = serde_json::from_slice(&body).map_err(|error| {
            let message = format!("an answer of {} is not JSON: {error}", self.name);
            Refusal::new(StatusCode::BAD_GATEWAY, message)
        })?;
        Ok(Loaded { value, _turn: turn })
    }

    /// Requests a path of the API, following relative redirects.
    async fn read(
        &self,
        path: &str,
        query: Option<&str>,
        permissions: &Permissions,
    ) -> Result<reqwest::Response, Refusal> {
        let mut path = match query {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        };
        for _ in 0..=MAX_REDIRECTS {
            let request = self.request(Method::GET, &path, permissions);
            match self.ask(request).await {
                // The repository was renamed.
                Err(refusal) if refusal.status.is_redirection() => {
                    path = self.redirected(&refusal.location().unwrap_or_default())?;
                }
                answer => return answer,
            }
        }
        Err(self.too_many_redirects())
    }

    pub(super) async fn info(
        &self,
        repository: &Repository,
        revision: Option<&str>,
        query: Option<&str>,
        permissions: &Permissions,
    ) -> Result<Loaded, Refusal> {
        let path = request::info(repository, revision);
        self.json(self.read(&path, query, permissions).await?).await
    }

    pub(super) async fn page(
        &self,
        revision: &Revision,
        folder: &str,
        query: Option<&str>,
        permissions: &Permissions,
    ) -> Result<Page, Refusal> {
        let path = revision.tree(folder);
        let answer = self.read(&path, query, permissions).await?;
        Ok(Page {
            next: self.next(answer.headers())?,
            entries: PageEntries::Arriving(Box::new(ArrivingList::new(&self.name, answer)?)),
        })
    }

    fn list(&self, value: Value) -> Result<Vec<Value>, Refusal> {
        match value {
            Value::Array(entries) => Ok(entries),
            _ => {
                let message = format!("an answer of {} is not a list", self.name);
                Err(Refusal::new(StatusCode::BAD_GATEWAY, message))
            }
        }
    }

    /// Returns path and query of the next page from `<https://…?cursor=…>; rel="next"`.
    /// The host of that address is ignored: the hub may be known under several names.
    fn next(&self, headers: &HeaderMap) -> Result<Option<String>, Refusal> {
        let links = headers.get_all(header::LINK).iter();
        let links = links.filter_map(|link| link.to_str().ok());
        let Some(next) = links
            .flat_map(|link| link.split(','))
            .find(|part| part.contains("rel=\"next\""))
        else {
            return Ok(None);
        };
        let url = next
            .trim()
            .strip_prefix('<')
            .and_then(|rest| rest.split('>').next());
        let uri: Option<Uri> = url.and_then(|url| url.parse().ok());
        let path = uri.as_ref().and_then(Uri::path_and_query);
        let path = path.map(|path| path.as_str().to_owned());
        path.map(Some).ok_or_else(|| {
            let message = format!(
                "{} names no valid address for the next page of its list",
                self.name
            );
            Refusal::new(StatusCode::BAD_GATEWAY, message)
        })
    }

    pub(super) async fn paths_info(
        &self,
        revision: &Revision,
        paths: &[String],
        is_expanded: bool,
        permissions: &Permissions,
    ) -> Result<Vec<Value>, Refusal> {
        let asked = serde_json::json!({"paths": paths, "expand": is_expanded}).to_string();
        let mut path = revision.api("paths-info");
        for _ in 0..=MAX_REDIRECTS {
            let request = self
                .request(Method::POST, &path, permissions)
                .header(header::CONTENT_TYPE, "application/json")
                .body(asked.clone());
            match self.ask(request).await {
                // The repository was renamed.
                Err(refusal) if refusal.status.is_redirection() => {
                    path = self.redirected(&refusal.location().unwrap_or_default())?;
                }
                answer => return self.list(self.json(answer?).await?.value),
            }
        }
        Err(self.too_many_redirects())
    }

    pub(super) async fn look(
        &self,
        revision: &Revision,
        path: &str,
        permissions: &Permissions,
    ) -> Result<Entry, Refusal> {
        let mut asked = revision.file(path);
        let mut commit = None;
        for _ in 0..=MAX_REDIRECTS {
            let request = self.request(Method::HEAD, &asked, permissions);
            // Requests uncompressed bytes, because a compressed answer has another
            // length than the file.
            let request = request.header(header::ACCEPT_ENCODING, "identity");
            let answer = self.send(request).await?;
            let text = |name: &str| Some(answer.headers().get(name)?.to_str().ok()?.to_owned());
            commit = commit.or_else(|| text("x-repo-commit"));
            let tag = text("x-linked-etag").or_else(|| text("etag"));
            let tag = tag.map(|tag| tag.trim_start_matches("W/").trim_matches('"').to_owned());
            let len = text("x-linked-size").or_else(|| text("content-length"));
            let location = text("location").filter(|_| answer.status().is_redirection());
            match location {
                Some(location) if location.starts_with('/') && text("x-linked-etag").is_none() => {
                    asked = self.redirected(&location)?;
                }
                _ => {
                    let len_bytes = len.and_then(|len| len.parse().ok());
                    let known = tag.zip(len_bytes).ok_or_else(|| {
                        let message = format!("{} does not state the length of {path}", self.name);
                        Refusal::new(StatusCode::BAD_GATEWAY, message)
                    });
                    let (tag, len_bytes) = known?;
                    let commit = commit.filter(|commit| commit.len() <= MAX_TAG_BYTES);
                    if tag.len() > MAX_TAG_BYTES {
                        let message = format!("{} sends too long an ETag for {path}", self.name);
                        return Err(Refusal::new(StatusCode::BAD_GATEWAY, message));
                    }
                    return Ok(Entry {
                        commit,
                        identity: identity(&revision.repository, path, &tag, len_bytes),
                        len_bytes,
                    });
                }
            }
        }
        Err(self.too_many_redirects())
    }

    /// Checks that the first byte of a file can be read with these permissions.
    pub(super) async fn prove(
        &self,
        revision: &Revision,
        path: &str,
        entry: &Entry,
        permissions: &Permissions,
    ) -> Result<(), Refusal> {
        if entry.len_bytes == 0 {
            return Ok(());
        }
        let mut revision = revision.clone();
        if let Some(commit) = &entry.commit {
            revision.name.clone_from(commit);
        }
        let mut tries = 0;
        loop {
            let file = revision.file(path);
            match self.first_byte(&file, entry, permissions).await {
                Err(refusal) if refusal.may_pass() && tries < self.http.retries => {
                    tokio::time::sleep(backoff(self.http.first_backoff, tries)).await;
                    tries += 1;
                }
                proved => return proved,
            }
        }
    }

    async fn first_byte(
        &self,
        path: &str,
        entry: &Entry,
        permissions: &Permissions,
    ) -> Result<(), Refusal> {
        let mut request = self.request(Method::GET, path, permissions);
        for _ in 0..=MAX_REDIRECTS {
            let answer = self
                .send(
                    request
                        .header(header::RANGE, "bytes=0-0")
                        .header(header::ACCEPT_ENCODING, "identity"),
                )
                .await?;
            if !answer.status().is_redirection() {
                return self.has_first_byte(answer, entry).await;
            }
            let location = answer.headers().get(header::LOCATION);
            let location = location.and_then(|location| location.to_str().ok());
            let location = location.unwrap_or_default();
            request = match location.starts_with('/') && !location.starts_with("//") {
                true => self.request(Method::GET, &self.redirected(location)?, permissions),
                // The storage server does not receive the client's credentials.
                false => self.client.get(location),
            };
        }
        Err(self.too_many_redirects())
    }

    async fn has_first_byte(
        &self,
        mut answer: reqwest::Response,
        entry: &Entry,
    ) -> Result<(), Refusal> {
        let text = |name| answer.headers().get(name)?.to_str().ok();
        let len = match answer.status() {
            StatusCode::PARTIAL_CONTENT => {
                let range = text(header::CONTENT_RANGE);
                range.and_then(|range| range.strip_prefix("bytes 0-0/"))
            }
            _ => text(header::CONTENT_LENGTH),
        };
        let len: Option<u64> = len.and_then(|len| len.parse().ok());
        let fail = |error: reqwest::Error| Refusal::unanswered(&self.endpoint, &error);
        let first = answer.chunk().await.map_err(fail)?;
        match len == Some(entry.len_bytes) && first.is_some_and(|first| !first.is_empty()) {
            true => Ok(()),
            false => {
                let message = format!("{} sends a different file than it describes", self.name);
                Err(Refusal::new(StatusCode::BAD_GATEWAY, message))
            }
        }
    }

    /// Returns the path that a relative redirect leads to. A redirect to another server
    /// is an error, because the client's credentials are meant for this hub only.
    fn redirected(&self, location: &str) -> Result<String, Refusal> {
        let is_here = location.starts_with('/') && !location.starts_with("//");
        let uri: Option<Uri> = location.parse().ok().filter(|_| is_here);
        match uri.is_some_and(|uri| path_rules::check(&uri).is_ok()) {
            true => Ok(location.into()),
            false => {
                let message = format!("{} redirects to another server", self.name);
                Err(Refusal::new(StatusCode::BAD_GATEWAY, message))
            }
        }
    }

    fn too_many_redirects(&self) -> Refusal {
        let message = format!("{} redirects in a circle", self.name);
        Refusal::new(StatusCode::BAD_GATEWAY, message)
    }

    pub(super) async fn open(
        &self,
        revision: &Revision,
        path: &str,
        permissions: &Permissions,
    ) -> Result<Arc<dyn AsyncSource>> {
        let mut http = self.http.clone();
        if let Some(value) = permissions.value() {
            let value = value.to_str().map_err(|_| {
                Error::Usage("the header Authorization contains invalid characters".into())
            })?;
            http = http.header(&self.endpoint, "Authorization", value)?;
        }
        let url = format!("{}/{}", self.endpoint, revision.file(path));
        let remote = Remote::open_async(&url, HEAD_LEN_BYTES, &http).await?;
        Ok(Arc::new(remote))
    }
}

/// Returns the identity of a file to which the hub gives the ETag `tag`. It includes
/// the repository, because an ETag is not trusted across repositories, and the path
/// unless the ETag is a SHA-256, because several files may share any other ETag.
pub(super) fn identity(repository: &Repository, path: &str, tag: &str, len_bytes: u64) -> String {
    let is_sha256 = tag.len() == 64 && tag.bytes().all(|byte| byte.is_ascii_hexdigit());
    match is_sha256 {
        true => format!("{repository} {tag} {len_bytes}"),
        // No repository's name ends with a slash, so the two formats cannot collide.
        false => format!("{repository}/ {tag} {len_bytes} {path}"),
    }
}

fn client(
    endpoint: &str,
    http: &HttpOptions,
) -> Result<reqwest::Client, Box<dyn std::error::Error>> {
    let proxies = Proxies::of_process();
    proxies.check(!endpoint.starts_with("https:"))?;
    // Redirects are passed to the client or followed by `Hub`, which does not send the
    // client's credentials to other servers.
    let client = builder(&proxies)?
        .connect_timeout(http.connect_timeout)
        .read_timeout(http.idle_timeout)
        .pool_idle_timeout(Duration::from_secs(60))
        .build()?;
    Ok(client)
}
