//! The `/_stub` API, which lets tests in other languages control a hub.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::json;

use super::Hub;
use super::answer::{Answer, Refusal, json_response};
use super::fault::Fault;
use super::repository::{Files, RepoId, RepoKind, Repository};
use super::requests::read;

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
