//! Answers to HTTP requests: notifications, health checks and metrics.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use axum::response::Response;
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::metrics::Metrics;
use super::queue::{Queue, Queued};
use super::secret::Secret;
use super::{Event, Job, JobEvent, Stage, payload};
use zstn_serve::access::Access;
use zstn_serve::{Note, Served};

/// Maximum length of a notification, in bytes. Notifications with long comments have
/// several thousand bytes.
const MAX_BODY_BYTES: usize = 1 << 20;

/// The time within which the body of a notification must arrive.
const BODY_TIME: Duration = Duration::from_secs(30);

pub(super) struct Site {
    pub(super) queue: Arc<Queue>,
    pub(super) secret: Option<Secret>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) log: Arc<dyn Fn(Event) + Send + Sync>,
}

/// A status and a JSON value.
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
        let jobs = payload::jobs(&body).map_err(|why| refused(StatusCode::BAD_REQUEST, &why))?;
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

    async fn add(&self, job: Job) -> Result<Value, Answer> {
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
