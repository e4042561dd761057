//! The HTTP side of a worker: notifications of a hub (webhook payloads of version 3),
//! their secret, health checks and metrics.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use axum::response::Response;
use hyper::body::Incoming;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Metrics;
use super::queue::{Queue, Queued};
use super::{CommitJob, Event, JobEvent, Stage};
use crate::hub::{RepoKind, Repository, is_commit};
use zstn_serve::access::Access;
use zstn_serve::{Note, Served};

/// Maximum length of a notification, in bytes. Notifications with long comments have
/// several thousand bytes.
const MAX_BODY_BYTES: usize = 1 << 20;

/// The time within which the body of a notification must arrive.
const BODY_TIME: Duration = Duration::from_secs(30);

pub(super) struct Site {
    pub(super) queue: Arc<Queue>,
    pub(super) secret: Option<WebhookSecret>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) log: Arc<dyn Fn(Event) + Send + Sync>,
}

/// The status and the JSON body of an answer.
type Answer = (StatusCode, Value);

impl Site {
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response {
        let (parts, body) = request.into_parts();
        let (status, kind, text) = match (&parts.method, parts.uri.path()) {
            (&Method::GET | &Method::HEAD, "/healthz") => {
                (StatusCode::OK, "text/plain; charset=utf-8", "ok\n".into())
            }
            (&Method::GET | &Method::HEAD, "/metrics") => {
                let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                (StatusCode::OK, kind, self.metrics.text(self.queue.len()))
            }
            _ => {
                let answer = self.notified(&parts, body).await;
                let (status, value) = answer.unwrap_or_else(|answer| answer);
                (status, "application/json", format!("{value}\n"))
            }
        };
        self.metrics.count_request(status.as_u16());
        let note = (status.is_client_error()).then(|| Note::Malformed(text.trim().into()));
        let served = Served::new(&parts, status.as_u16(), text.len() as u64, note);
        (self.log)(Event::Request(served));
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }

    /// Adds the jobs of a notification to the queue. The answer is sent once they are
    /// on disk.
    async fn notified(&self, parts: &Parts, body: Incoming) -> Result<Answer, Answer> {
        self.check_sender(parts)?;
        if !["/", "/webhook"].contains(&parts.uri.path()) {
            return Err(refused(StatusCode::NOT_FOUND, "post to / or /webhook"));
        }
        if parts.method != Method::POST {
            let sentence = "send notifications with POST";
            return Err(refused(StatusCode::METHOD_NOT_ALLOWED, sentence));
        }
        if let Some(secret) = &self.secret {
            match parts.headers.get("x-webhook-secret") {
                None => {
                    let sentence = "the header X-Webhook-Secret is missing";
                    return Err(refused(StatusCode::UNAUTHORIZED, sentence));
                }
                Some(given) if !secret.is(given.as_bytes()) => {
                    let sentence = "the secret in X-Webhook-Secret is wrong";
                    return Err(refused(StatusCode::FORBIDDEN, sentence));
                }
                Some(_) => {}
            }
        }
        let read = to_bytes(Body::new(body), MAX_BODY_BYTES);
        let read = tokio::time::timeout(BODY_TIME, read).await;
        let body = read.map_err(|_| {
            let sentence = format!("the body takes more than {} s", BODY_TIME.as_secs());
            refused(StatusCode::REQUEST_TIMEOUT, &sentence)
        })?;
        let body = body.map_err(|_| {
            let sentence = "the body is too long for a notification, or was cut off";
            refused(StatusCode::PAYLOAD_TOO_LARGE, sentence)
        })?;
        let jobs = jobs_of(&body).map_err(|why| refused(StatusCode::BAD_REQUEST, &why))?;
        let mut answers = Vec::new();
        for job in jobs {
            answers.push(self.add(job).await?);
        }
        Ok((StatusCode::ACCEPTED, json!({ "jobs": answers })))
    }

    /// Refuses requests that a web page can make a browser send. Without a secret, such
    /// a page could otherwise add jobs, which are done with the worker's token.
    fn check_sender(&self, parts: &Parts) -> Result<(), Answer> {
        if self.secret.is_none() {
            // With a secret, any host name is accepted, because a proxy may forward the
            // requests.
            let checked = Access::default().check_host(parts);
            checked.map_err(|(status, note)| refused(status, &note.to_string()))?;
        }
        if parts.headers.contains_key(header::ORIGIN) {
            let sentence = "web pages cannot submit jobs; hubs send no Origin";
            return Err(refused(StatusCode::FORBIDDEN, sentence));
        }
        let kind = parts.headers.get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if parts.method == Method::POST && !kind.eq_ignore_ascii_case("application/json") {
            let sentence = "the Content-Type of a notification must be application/json";
            return Err(refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, sentence));
        }
        Ok(())
    }

    async fn add(&self, job: CommitJob) -> Result<Value, Answer> {
        let (queue, added) = (Arc::clone(&self.queue), job.clone());
        let added = tokio::task::spawn_blocking(move || queue.add(&added)).await;
        let queued = match added {
            Ok(Ok(queued)) => queued,
            Ok(Err(error)) => {
                let sentence = error.to_string();
                return Err(refused(StatusCode::INTERNAL_SERVER_ERROR, &sentence));
            }
            Err(error) => {
                let sentence = error.to_string();
                return Err(refused(StatusCode::INTERNAL_SERVER_ERROR, &sentence));
            }
        };
        if queued == Queued::New {
            self.metrics.count_stage(Stage::Queued);
            let event = JobEvent::new(Stage::Queued, &job.repo, &job.revision);
            (self.log)(Event::Job(event.detail(format!("branch {}", job.branch))));
        }
        Ok(json!({
            "repo": job.repo,
            "revision": job.revision,
            "branch": job.branch,
            "state": if queued == Queued::New { "queued" } else { "known" },
        }))
    }
}

fn refused(status: StatusCode, sentence: &str) -> Answer {
    (status, json!({ "error": sentence }))
}

/// The supported version of payloads.
const VERSION: u64 = 3;

/// Returns the jobs of a notification: one for every branch with a new commit. Tags,
/// pull requests, discussions, deleted branches and deleted repositories give no jobs.
///
/// # Errors
/// A message for a body that is not a supported notification.
fn jobs_of(body: &[u8]) -> Result<Vec<CommitJob>, String> {
    let payload: Value =
        serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
    if payload["webhook"]["version"] != VERSION {
        return Err(format!(
            "the payload is not of version {VERSION}, the only one that is supported"
        ));
    }
    let repo = &payload["repo"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let kind = text(&repo["type"]).and_then(|kind| RepoKind::of_singular(&kind));
    let name = text(&repo["name"]).unwrap_or_default();
    let scope = text(&payload["event"]["scope"]).unwrap_or_default();
    let kind = kind.ok_or("repo.type is none of model, dataset, space and kernel")?;
    let repository = Repository::new(kind, &name).map_err(|error| error.to_string())?;
    let is_content = scope == "repo" || scope == "repo.content";
    if !is_content || payload["event"]["action"] == "delete" {
        return Ok(Vec::new());
    }
    let refs = payload["updatedRefs"].as_array();
    let jobs = refs.into_iter().flatten().filter_map(|updated| {
        let branch = updated["ref"].as_str()?.strip_prefix("refs/heads/")?;
        let commit = updated["newSha"].as_str().filter(|sha| is_commit(sha))?;
        let before = updated["oldSha"].as_str().filter(|sha| is_commit(sha));
        let mut job = CommitJob::new(&repository, branch, commit);
        job.before = before.map(str::to_owned);
        Some(job)
    });
    Ok(jobs.collect())
}

/// A secret that is compared in constant time.
pub(super) struct WebhookSecret(Vec<u8>);

impl WebhookSecret {
    pub(super) fn new(secret: &str) -> Self {
        Self(digest(secret.as_bytes()))
    }

    /// Returns whether `given` is the secret. All bytes of the two digests are
    /// compared, so the time reveals neither the secret's length nor the first
    /// difference.
    pub(super) fn is(&self, given: &[u8]) -> bool {
        let given = digest(given);
        let pairs = self.0.iter().zip(&given);
        let difference = pairs.fold(0, |sum, (ours, theirs)| sum | (ours ^ theirs));
        std::hint::black_box(difference) == 0
    }
}

fn digest(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload() -> Value {
        let (old, new) = ("0".repeat(40), "1".repeat(40));
        json!({
            "event": { "action": "update", "scope": "repo.content" },
            "repo": { "type": "model", "name": "o/n", "headSha": new },
            "updatedRefs": [
                { "ref": "refs/heads/main", "oldSha": old, "newSha": new },
                { "ref": "refs/heads/gone", "oldSha": old, "newSha": null },
                { "ref": "refs/tags/v1", "oldSha": null, "newSha": new },
                { "ref": "refs/pr/1", "oldSha": null, "newSha": new },
                { "ref": "refs/heads/bad", "oldSha": null, "newSha": "../../x" },
            ],
            "webhook": { "id": "1", "version": 3 },
        })
    }

    #[test]
    fn branches_with_new_commits_are_jobs() {
        let found = jobs_of(payload().to_string().as_bytes()).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((&*found[0].repo, &*found[0].branch), ("o/n", "main"));
        assert_eq!(found[0].before.as_deref(), Some(&*"0".repeat(40)));
        for (pointer, value) in [
            ("/event/scope", json!("discussion")),
            ("/event/action", json!("delete")),
            ("/updatedRefs", json!(null)),
        ] {
            let mut other = payload();
            *other.pointer_mut(pointer).unwrap() = value;
            assert_eq!(
                jobs_of(other.to_string().as_bytes()),
                Ok(Vec::new()),
                "{pointer}"
            );
        }
    }

    #[test]
    fn other_bodies_are_refused() {
        assert!(jobs_of(b"{").is_err());
        assert!(jobs_of(b"[]").is_err());
        for (pointer, value) in [
            ("/webhook/version", json!(2)),
            ("/repo/type", json!("bucket")),
            ("/repo/name", json!("../etc")),
            ("/repo/name", json!(3)),
        ] {
            let mut other = payload();
            *other.pointer_mut(pointer).unwrap() = value;
            assert!(jobs_of(other.to_string().as_bytes()).is_err(), "{pointer}");
        }
    }
}
