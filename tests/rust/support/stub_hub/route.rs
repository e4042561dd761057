//! Routes requests to their handlers, and serves the `/_stub` API, which lets tests in
//! other languages control a hub.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::json;

use super::Hub;
use super::fault::Fault;
use super::http::{Answer, HubRequest, Refusal, json_response, read};
use super::repository::{Files, RepoId, RepoKind, Repository, Visitor};

/// Words that can follow the name of a repository in a path.
const VERBS: [&str; 15] = [
    "branch",
    "commit",
    "commits",
    "paths-info",
    "preupload",
    "refs",
    "resolve",
    "revision",
    "settings",
    "tag",
    "tree",
    "xet-read-token",
    "xet-write-token",
    "info",
    "raw",
];

impl Hub {
    /// Routes a request and returns its answer.
    pub(super) async fn route(self: &Arc<Self>, request: &HubRequest, body: Incoming) -> Answer {
        let segments: Vec<&str> = request.segments.iter().map(String::as_str).collect();
        let method = request.method.as_str();
        if let ["_stub", rest @ ..] = &*segments {
            return self.control(method, rest, body).await;
        }
        if let ["cdn", place @ ..] = &*segments {
            // These URLs are signed, so they need no token.
            return self.storage(request, place, body).await;
        }
        let visitor = self.access.visitor(&request.headers)?;
        match (method, &*segments) {
            ("POST", ["api", "repos", "create"]) => self.create(visitor, body).await,
            ("DELETE", ["api", "repos", "delete"]) => self.delete(visitor, body).await,
            ("GET", ["api", "whoami-v2"]) => whoami(visitor),
            ("POST", ["api", "validate-yaml"]) => {
                Ok(json_response(&json!({ "errors": [], "warnings": [] })))
            }
            ("POST", ["api", "settings", "webhooks"]) => self.create_webhook(visitor, body).await,
            ("GET", ["api", kind]) => match RepoKind::parse(kind) {
                Some(kind) => Ok(self.list(visitor, kind, request)),
                None => Err(Refusal::entry_not_found()),
            },
            (_, ["api", kind, rest @ ..]) => match RepoKind::parse(kind) {
                Some(kind) => self.api(request, visitor, kind, rest, body).await,
                None => Err(Refusal::entry_not_found()),
            },
            (_, rest) => {
                let (kind, rest) = match rest {
                    ["datasets", rest @ ..] => (RepoKind::Dataset, rest),
                    ["spaces", rest @ ..] => (RepoKind::Space, rest),
                    rest => (RepoKind::Model, rest),
                };
                self.site(request, visitor, kind, rest, body).await
            }
        }
    }

    /// Answers a request below `/api/models`, `/api/datasets` or `/api/spaces`.
    async fn api(
        self: &Arc<Self>,
        request: &HubRequest,
        visitor: Visitor,
        kind: RepoKind,
        rest: &[&str],
        body: Incoming,
    ) -> Answer {
        let (id, rest) = split_name(kind, rest)?;
        let method = request.method.as_str();
        match (method, rest) {
            ("GET", []) => self.info(request, visitor, &id, "main"),
            ("GET", ["revision", revision @ ..]) => {
                self.info(request, visitor, &id, &revision.join("/"))
            }
            ("GET", ["tree", rest @ ..]) => {
                let (revision, path) = split_revision(rest)?;
                self.tree(request, visitor, &id, &revision, &path)
            }
            ("POST", ["paths-info", revision @ ..]) => {
                let revision = revision.join("/");
                self.paths_info(visitor, &id, &revision, body).await
            }
            ("GET", ["refs"]) => self.refs(visitor, &id),
            ("GET", ["commits", revision @ ..]) => self.commits(visitor, &id, &revision.join("/")),
            ("POST", ["branch", name]) => self.branch(visitor, &id, name, body).await,
            ("GET", ["xet-read-token", revision @ ..]) => {
                self.xet_token(visitor, &id, false, &revision.join("/"))
            }
            ("GET", ["xet-write-token", revision @ ..]) => {
                self.xet_token(visitor, &id, true, &revision.join("/"))
            }
            ("PUT", ["settings"]) => self.settings(visitor, &id, body).await,
            ("POST", ["preupload", revision @ ..]) => {
                let revision = revision.join("/");
                self.preupload(visitor, &id, &revision, body).await
            }
            ("POST", ["commit", revision @ ..]) => {
                let revision = revision.join("/");
                self.commit(request, visitor, &id, &revision, body).await
            }
            _ => Err(Refusal::entry_not_found()),
        }
    }

    /// Answers a request for a file or an upload.
    async fn site(
        self: &Arc<Self>,
        request: &HubRequest,
        visitor: Visitor,
        kind: RepoKind,
        rest: &[&str],
        body: Incoming,
    ) -> Answer {
        let (id, rest) = split_name(kind, rest)?;
        match (request.method.as_str(), rest) {
            ("GET" | "HEAD", ["resolve" | "raw", rest @ ..]) => {
                let (revision, path) = split_revision(rest)?;
                self.resolve(request, visitor, &id, &revision, &path)
            }
            ("POST", ["info", "lfs", "objects", "batch"]) => {
                self.lfs_batch(visitor, &id, body).await
            }
            ("POST", ["info", "lfs", "objects", "verify"]) => self.lfs_verify(visitor, body).await,
            _ => Err(Refusal::entry_not_found()),
        }
    }
}

/// Splits a repository name, with or without an owner, off a path.
fn split_name<'a>(kind: RepoKind, rest: &'a [&'a str]) -> Result<(RepoId, &'a [&'a str]), Refusal> {
    let (name, rest) = match rest {
        [name, verb, ..] if VERBS.contains(verb) => ((*name).to_owned(), &rest[1..]),
        [owner, name, rest @ ..] => (format!("{owner}/{name}"), rest),
        [name] if !name.is_empty() => ((*name).to_owned(), &rest[1..]),
        _ => return Err(Refusal::entry_not_found()),
    };
    let name = name.strip_suffix(".git").map_or(name.clone(), Into::into);
    Ok((RepoId { kind, name }, rest))
}

/// Splits a revision, either one segment or `refs/pr/N`, off a path.
fn split_revision(rest: &[&str]) -> Result<(String, String), Refusal> {
    match rest {
        ["refs", kind, name, path @ ..] => Ok((format!("refs/{kind}/{name}"), path.join("/"))),
        [revision, path @ ..] => Ok(((*revision).to_owned(), path.join("/"))),
        [] => Err(Refusal::entry_not_found()),
    }
}

fn whoami(visitor: Visitor) -> Answer {
    let role = match visitor.role() {
        Some(super::Role::Write) => "write",
        Some(super::Role::Read) => "read",
        None => return Err(Refusal::new(401, "", "Invalid username or password.")),
    };
    let token = json!({ "displayName": "stub", "role": role });
    Ok(json_response(&json!({
        "type": "user",
        "id": "0",
        "name": "me",
        "fullname": "me",
        "isPro": false,
        "orgs": [],
        "auth": { "type": "access_token", "accessToken": token },
    })))
}

impl Hub {
    /// Answers requests below `/_stub`. They are not logged, and faults do not apply to
    /// them.
    pub(super) async fn control(&self, method: &str, rest: &[&str], body: Incoming) -> Answer {
        match (method, rest) {
            ("GET", ["log"]) => Ok(json_response(&json!(self.log.all()))),
            ("DELETE", ["log"]) => {
                self.log.clear();
                Ok(json_response(&json!({})))
            }
            ("POST", ["commits"]) => {
                let addition = serde_json::from_slice(&read(body).await?);
                self.add_commit(addition.map_err(|error| Refusal::bad_request(error.to_string()))?)
            }
            ("POST", ["faults"]) => {
                let fault: Fault = serde_json::from_slice(&read(body).await?)
                    .map_err(|error| Refusal::bad_request(error.to_string()))?;
                self.faults.add(fault);
                Ok(json_response(&json!({})))
            }
            ("DELETE", ["faults"]) => {
                self.faults.clear();
                Ok(json_response(&json!({})))
            }
            ("DELETE", ["repositories"]) => {
                self.repositories().clear();
                let cleared = self.blobs.clear();
                cleared.map_err(|error| Refusal::bad_request(error.to_string()))?;
                Ok(json_response(&json!({})))
            }
            _ => Err(Refusal::new(
                StatusCode::NOT_FOUND.as_u16(),
                "",
                "No such control",
            )),
        }
    }

    /// Makes a commit that contains exactly these files.
    fn add_commit(&self, addition: Addition) -> Answer {
        let kind = RepoKind::parse(&addition.kind);
        let id = RepoId {
            kind: kind.ok_or_else(|| Refusal::bad_request("no such kind"))?,
            name: addition.repository,
        };
        let files = addition.files.iter().map(|(path, content)| {
            let bytes = BASE64_STANDARD.decode(content);
            let bytes = bytes.map_err(|error| Refusal::bad_request(error.to_string()))?;
            Ok((&**path, bytes))
        });
        let files = files.collect::<Result<Vec<_>, Refusal>>()?;
        let files: Vec<_> = files
            .iter()
            .map(|(path, bytes)| (*path, &**bytes))
            .collect();
        let mut repositories = self.repositories();
        let repository = repositories
            .entry(id.clone())
            .or_insert_with(|| Repository::without_commits(id));
        repository.private = addition.private;
        let commit = self.add(repository, &addition.branch, Files::new(), &files)?;
        Ok(json_response(&json!({ "commit": commit })))
    }
}

/// A commit that a test adds.
#[derive(Debug, Deserialize)]
struct Addition {
    kind: String,
    repository: String,
    branch: String,
    private: bool,
    /// File contents in base64, keyed by path.
    files: BTreeMap<String, String>,
}
