//! Requests about whole repositories: creation, deletion, settings, branches and
//! notifications sent to webhooks.

use std::sync::Arc;
use std::thread;

use axum::response::Response;
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::http::{
    Answer, HubRequest, Refusal, empty_response, json_response, read_json, set_status,
};
use super::repository::{Commit, Content, RepoId, RepoKind, Repository, Visitor};
use super::{Hub, text};
use crate::http_request::request;
use crate::lock;

impl Hub {
    pub(super) async fn create(&self, visitor: Visitor, body: Incoming) -> Answer {
        let body = read_json(body).await?;
        visitor.may_write()?;
        let id = RepoId::from_body(&body);
        let url = format!("{}/{}", self.url, id.path());
        let mut repositories = self.repositories();
        let is_new = !repositories.contains_key(&id);
        let repository = repositories
            .entry(id.clone())
            .or_insert_with(|| Repository::new(id.clone()));
        let value = json!({ "url": url, "name": id.name, "id": id.name });
        if is_new {
            repository.private = is_private(&body).unwrap_or(false);
            return Ok(json_response(&value));
        }
        let mut response = json_response(&json!({
            "error": "You already created this repo",
            "url": url,
        }));
        set_status(&mut response, 409);
        Ok(response)
    }

    pub(super) async fn delete(&self, visitor: Visitor, body: Incoming) -> Answer {
        let body = read_json(body).await?;
        visitor.may_write()?;
        let removed = self.repositories().remove(&RepoId::from_body(&body));
        removed.ok_or_else(Refusal::repo_not_found)?;
        Ok(empty_response(200))
    }

    pub(super) async fn settings(&self, visitor: Visitor, id: &RepoId, body: Incoming) -> Answer {
        let body = read_json(body).await?;
        visitor.may_write()?;
        let mut repositories = self.repositories();
        let repository = repositories
            .get_mut(id)
            .ok_or_else(Refusal::repo_not_found)?;
        if let Some(private) = is_private(&body) {
            repository.private = private;
        }
        if !body["gated"].is_null() {
            repository.gated = body["gated"] != false;
        }
        Ok(json_response(&json!({})))
    }

    /// Lists the public repositories of one kind.
    pub(super) fn list(&self, visitor: Visitor, kind: RepoKind, request: &HubRequest) -> Response {
        let author = request.parameter("author").map(|name| format!("{name}/"));
        let repositories = self.repositories();
        let found = repositories.values().filter(|repository| {
            repository.id.kind == kind
                && visitor.may_see(Some(repository)).is_ok()
                && author
                    .as_ref()
                    .is_none_or(|author| repository.id.name.starts_with(author))
        });
        let found = found.filter_map(|repository| {
            let commit = repository.find("main")?;
            Some(self.describe(repository, commit, false))
        });
        json_response(&found.collect())
    }

    pub(super) fn info(
        &self,
        request: &HubRequest,
        visitor: Visitor,
        id: &RepoId,
        revision: &str,
    ) -> Answer {
        let repositories = self.repositories();
        let repository = visitor.may_see(repositories.get(id))?;
        let commit = find(repository, revision)?;
        Ok(json_response(&self.describe(
            repository,
            commit,
            request.has("blobs"),
        )))
    }

    fn describe(&self, repository: &Repository, commit: &Commit, with_blobs: bool) -> Value {
        let siblings = commit.files.iter().map(|(path, file)| {
            let mut value = json!({ "rfilename": path });
            if with_blobs {
                value["size"] = json!(file.len_bytes);
                value["blobId"] = json!(file.oid);
                if let Content::Large(sha256) = &file.content {
                    value["lfs"] = json!({
                        "sha256": sha256,
                        "size": file.len_bytes,
                        "pointerSize": super::repository::POINTER_BYTES,
                    });
                }
            }
            value
        });
        let used: u64 = commit.files.values().map(|file| file.len_bytes).sum();
        let name = &repository.id.name;
        json!({
            "_id": name,
            "id": name,
            "modelId": name,
            "author": name.split_once('/').map(|(owner, _)| owner),
            "sha": commit.info.id,
            "lastModified": commit.info.date,
            "createdAt": "2026-01-01T00:00:00.000Z",
            "private": repository.private,
            "gated": if repository.gated { json!("auto") } else { json!(false) },
            "disabled": false,
            "tags": [],
            "downloads": 0,
            "likes": 0,
            "usedStorage": used,
            "siblings": siblings.collect::<Value>(),
        })
    }

    pub(super) fn refs(&self, visitor: Visitor, id: &RepoId) -> Answer {
        let repositories = self.repositories();
        let repository = visitor.may_see(repositories.get(id))?;
        let list = |prefix: &str| -> Value {
            let found = repository.refs.iter().filter_map(|(name, id)| {
                let short = name.strip_prefix(prefix)?;
                Some(json!({ "name": short, "ref": name, "targetCommit": id }))
            });
            found.collect()
        };
        Ok(json_response(&json!({
            "branches": list("refs/heads/"),
            "tags": list("refs/tags/"),
            "pullRequests": list("refs/pr/"),
            "converts": [],
        })))
    }

    pub(super) async fn branch(
        &self,
        visitor: Visitor,
        id: &RepoId,
        name: &str,
        body: Incoming,
    ) -> Answer {
        let body = read_json(body).await?;
        let mut repositories = self.repositories();
        visitor.may_see(repositories.get(id))?;
        visitor.may_write()?;
        let repository = repositories
            .get_mut(id)
            .ok_or_else(Refusal::repo_not_found)?;
        let start = body["startingPoint"].as_str().unwrap_or("main");
        let start = find(repository, start)?.info.id.clone();
        let name = format!("refs/heads/{name}");
        if repository.refs.contains_key(&name) {
            let message = format!("Reference already exists: {name}");
            return Err(Refusal::new(409, "", message));
        }
        repository.refs.insert(name, start);
        Ok(empty_response(200))
    }

    pub(super) fn commits(&self, visitor: Visitor, id: &RepoId, revision: &str) -> Answer {
        let repositories = self.repositories();
        let repository = visitor.may_see(repositories.get(id))?;
        let mut next = Some(find(repository, revision)?);
        let mut found = Vec::new();
        while let Some(commit) = next {
            found.push(json!({
                "id": commit.info.id,
                "title": commit.info.title,
                "message": commit.info.message,
                "date": commit.info.date,
                "authors": [{ "user": "me" }],
            }));
            let parent = commit.parent.as_ref();
            next = parent.and_then(|parent| repository.commits.get(parent));
        }
        Ok(json_response(&found.into()))
    }
}

impl RepoId {
    /// Parses the body of a request that creates or deletes a repository.
    fn from_body(body: &Value) -> Self {
        let name = text(body, "name");
        let name = match text(body, "organization") {
            "" if name.contains('/') => name.into(),
            "" => format!("me/{name}"),
            owner => format!("{owner}/{name}"),
        };
        Self {
            kind: RepoKind::parse(text(body, "type")).unwrap_or(RepoKind::Model),
            name,
        }
    }
}

fn is_private(body: &Value) -> Option<bool> {
    let visibility = body["visibility"].as_str().map(|name| name == "private");
    visibility.or_else(|| body["private"].as_bool())
}

/// Returns the commit to which a revision resolves.
pub(super) fn find<'a>(
    repository: &'a Repository,
    revision: &str,
) -> Result<&'a Arc<Commit>, Refusal> {
    repository
        .find(revision)
        .ok_or_else(|| Refusal::revision_not_found(revision))
}

/// A receiver of commit notifications.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// URL to which the payload is posted.
    pub url: String,
    /// Value of the `X-Webhook-Secret` header.
    pub secret: Option<String>,
}

impl Hub {
    pub(super) async fn create_webhook(&self, visitor: Visitor, body: Incoming) -> Answer {
        let body = read_json(body).await?;
        visitor.may_write()?;
        let url = body["url"].as_str();
        let url = url.ok_or_else(|| Refusal::bad_request("a webhook needs a url"))?;
        let webhook = Webhook {
            url: url.into(),
            secret: body["secret"].as_str().map(Into::into),
        };
        let mut webhooks = lock(&self.webhooks);
        webhooks.push(webhook);
        let id = webhooks.len().to_string();
        Ok(json_response(&json!({ "webhook": {
            "id": id,
            "url": url,
            "watched": body["watched"],
            "domains": body["domains"],
            "secret": body["secret"],
            "disabled": false,
        }})))
    }

    /// Posts a change of `reference` to all webhooks, on a separate thread.
    pub(super) fn notify(
        self: &Arc<Self>,
        repository: &Repository,
        reference: &str,
        old: Option<&str>,
        new: &str,
    ) {
        let webhooks = lock(&self.webhooks).clone();
        if webhooks.is_empty() {
            return;
        }
        let mut payload = self.payload(repository, reference, old, new);
        thread::spawn(move || {
            for (index, webhook) in webhooks.iter().enumerate() {
                payload["webhook"] = json!({ "id": (index + 1).to_string(), "version": 3 });
                let mut headers = vec![("Content-Type", "application/json")];
                let secret = webhook.secret.as_deref();
                headers.extend(secret.map(|secret| ("X-Webhook-Secret", secret)));
                // Failed notifications are not retried, as on the real hub.
                let _ = request("POST", &webhook.url, &headers, payload.to_string());
            }
        });
    }

    fn payload(
        &self,
        repository: &Repository,
        reference: &str,
        old: Option<&str>,
        new: &str,
    ) -> Value {
        let id = &repository.id;
        let head = repository.refs.get("refs/heads/main");
        let (kind, name) = (id.kind.plural(), &id.name);
        json!({
            "event": { "action": "update", "scope": "repo.content" },
            "repo": {
                "type": id.kind.singular(),
                "name": name,
                "id": name,
                "private": repository.private,
                "url": {
                    "web": format!("{}/{}", self.url, id.path()),
                    "api": format!("{}/api/{kind}/{name}", self.url),
                },
                // The hub sends the first spelling; its Python client reads the second.
                "headSha": head,
                "head_sha": head,
                "tags": [],
                "owner": { "id": name.split_once('/').map(|(owner, _)| owner) },
            },
            "updatedRefs": [{ "ref": reference, "oldSha": old, "newSha": new }],
        })
    }
}
