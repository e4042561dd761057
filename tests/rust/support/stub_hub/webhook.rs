//! Commit notifications sent to webhooks.

use std::sync::Arc;
use std::thread;

use hyper::body::Incoming;
use serde_json::{Value, json};

use super::access::Visitor;
use super::answer::{Answer, Refusal, json_response};
use super::repository::Repository;
use super::requests::read_json;
use super::{Hub, lock};
use crate::web::request;

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
