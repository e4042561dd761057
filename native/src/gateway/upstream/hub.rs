//! A model hub as an upstream.

use std::time::Duration;

use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use reqwest::redirect::Policy;
use serde_json::Value;
use zstn_net::proxy::Proxies;
use zstn_net::{shown, tls};

use super::{Entry, Page, Permissions, Refusal};
use crate::gateway::request::{Repository, Revision};
use crate::source::{HttpOptions, Remote, Source, offline};
use crate::{Error, Result};
use zstn_core::limits::HEAD_LEN_BYTES;

/// The longest list or description that is read, in bytes.
const MAX_JSON_BYTES: usize = 256 << 20;

/// The longest part of an error's body that is repeated, in bytes.
const MAX_ERROR_BYTES: usize = 4 << 10;

/// The most relative redirects in a row: a renamed repository, and the place of
/// its small files.
const MAX_REDIRECTS: usize = 5;

/// A hub, and the connections to it.
#[derive(Debug)]
pub(in super::super) struct Hub {
    pub(super) endpoint: String,
    pub(super) client: reqwest::Client,
    pub(super) http: HttpOptions,
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
            endpoint,
            client,
            http: http.clone(),
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

    /// Sends a request. An answer that is no success becomes a refusal.
    async fn send(&self, request: reqwest::RequestBuilder) -> Result<reqwest::Response, Refusal> {
        let answer = request.send().await;
        let answer = answer.map_err(|error| Refusal::unanswered(&self.endpoint, &error))?;
        let status = answer.status();
        if status.is_success() || status.is_redirection() {
            return Ok(answer);
        }
        let headers = answer.headers().clone();
        let body = self.body(answer, MAX_ERROR_BYTES).await.unwrap_or_default();
        let body = String::from_utf8_lossy(&body);
        Err(Refusal::of_answer(status, &headers, &body))
    }

    async fn body(
        &self,
        mut answer: reqwest::Response,
        max_bytes: usize,
    ) -> Result<Vec<u8>, Refusal> {
        let fail = |error: reqwest::Error| Refusal::unanswered(&self.endpoint, &error);
        let mut body = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(fail)? {
            body.extend_from_slice(&part);
            if body.len() > max_bytes {
                let message = format!("an answer of {} is too long", self.endpoint);
                return Err(Refusal::new(StatusCode::BAD_GATEWAY, message));
            }
        }
        Ok(body)
    }

    async fn json(&self, request: reqwest::RequestBuilder) -> Result<(Value, HeaderMap), Refusal> {
        let answer = self.send(request).await?;
        let headers = answer.headers().clone();
        if answer.status().is_redirection() {
            return Err(Refusal::of_answer(answer.status(), &headers, "moved"));
        }
        let body = self.body(answer, MAX_JSON_BYTES).await?;
        let value = serde_json::from_slice(&body).map_err(|error| {
            let message = format!("an answer of {} is not JSON: {error}", self.endpoint);
            Refusal::new(StatusCode::BAD_GATEWAY, message)
        })?;
        Ok((value, headers))
    }

    /// Returns the JSON at the path and query of `uri`.
    pub(super) async fn read(
        &self,
        uri: &Uri,
        permissions: &Permissions,
    ) -> Result<(Value, HeaderMap), Refusal> {
        let mut path = uri
            .path_and_query()
            .map_or("/", |path| path.as_str())
            .to_owned();
        for _ in 0..=MAX_REDIRECTS {
            let request = self.request(Method::GET, &path, permissions);
            match self.json(request).await {
                // A repository that was renamed.
                Err(refusal) if refusal.status.is_redirection() => {
                    path = self.redirected(&refusal.location().unwrap_or_default())?;
                }
                answer => return answer,
            }
        }
        Err(self.too_many_redirects())
    }

    pub(super) async fn page(&self, uri: &Uri, permissions: &Permissions) -> Result<Page, Refusal> {
        let (list, headers) = self.read(uri, permissions).await?;
        Ok(Page {
            entries: self.list(list)?,
            next: self.next(&headers)?,
        })
    }

    fn list(&self, value: Value) -> Result<Vec<Value>, Refusal> {
        match value {
            Value::Array(entries) => Ok(entries),
            _ => {
                let message = format!("an answer of {} is not a list", self.endpoint);
                Err(Refusal::new(StatusCode::BAD_GATEWAY, message))
            }
        }
    }

    /// Returns path and query of the next page: `<https://…?cursor=…>; rel="next"`.
    /// The address may be that of the hub as others know it.
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
            let message = format!("{} does not say where its list goes on", self.endpoint);
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
            match self.json(request).await {
                // A repository that was renamed.
                Err(refusal) if refusal.status.is_redirection() => {
                    path = self.redirected(&refusal.location().unwrap_or_default())?;
                }
                answer => return self.list(answer?.0),
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
            // Bytes as they are: the length of a compressed answer is another.
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
                        let message = format!("{} does not say how long {path} is", self.endpoint);
                        Refusal::new(StatusCode::BAD_GATEWAY, message)
                    });
                    let (tag, len_bytes) = known?;
                    return Ok(Entry {
                        commit,
                        identity: identity(&revision.repository, &tag, len_bytes),
                        len_bytes,
                    });
                }
            }
        }
        Err(self.too_many_redirects())
    }

    /// Returns the path that a relative redirect leads to. Others are not
    /// followed: the client's permissions are for this hub.
    fn redirected(&self, location: &str) -> Result<String, Refusal> {
        match location.starts_with('/') && !location.starts_with("//") {
            true => Ok(location.into()),
            false => {
                let message = format!("{} redirects to another server", self.endpoint);
                Err(Refusal::new(StatusCode::BAD_GATEWAY, message))
            }
        }
    }

    fn too_many_redirects(&self) -> Refusal {
        let message = format!("{} redirects in a circle", self.endpoint);
        Refusal::new(StatusCode::BAD_GATEWAY, message)
    }

    pub(super) fn open(
        &self,
        revision: &Revision,
        path: &str,
        permissions: &Permissions,
    ) -> Result<Box<dyn Source>> {
        let mut http = self.http.clone();
        if let Some(value) = permissions.value() {
            let value = value.to_str().map_err(|_| {
                Error::Usage("the header Authorization has characters that it must not have".into())
            })?;
            http = http.with_header(&self.endpoint, "Authorization", value)?;
        }
        let url = format!("{}/{}", self.endpoint, revision.file(path));
        Ok(Box::new(Remote::open(&url, HEAD_LEN_BYTES, &http)?))
    }
}

/// Returns the name of bytes that a hub knows by `tag`. Digests are the same in
/// all repositories; what another hub calls them may not be.
pub(super) fn identity(repository: &Repository, tag: &str, len_bytes: u64) -> String {
    let is_hex = tag.bytes().all(|byte| byte.is_ascii_hexdigit());
    match is_hex && [40, 64].contains(&tag.len()) {
        true => format!("{tag} {len_bytes}"),
        false => format!("{} {tag} {len_bytes}", repository.prefix()),
    }
}

fn client(
    endpoint: &str,
    http: &HttpOptions,
) -> Result<reqwest::Client, Box<dyn std::error::Error>> {
    let proxies = Proxies::of_process();
    proxies.check(!endpoint.starts_with("https:"))?;
    let proxy = reqwest::Proxy::custom(move |target| proxies.url_for(target.as_str()));
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls::config()?)
        .proxy(proxy)
        .user_agent(concat!("zstn/", env!("CARGO_PKG_VERSION")))
        .http1_only()
        // Clients follow redirects themselves, and keep their permissions from
        // other servers.
        .redirect(Policy::none())
        .referer(false)
        .connect_timeout(http.connect_timeout)
        .read_timeout(http.idle_timeout)
        .pool_idle_timeout(Duration::from_secs(60))
        .build()?;
    Ok(client)
}
