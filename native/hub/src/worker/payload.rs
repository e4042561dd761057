//! Parsing the notifications of a hub (webhook payloads of version 3).

use serde_json::Value;

use super::Job;
use crate::hub::{RepoKind, Repository, is_commit};

/// The supported version of payloads.
const VERSION: u64 = 3;

/// Returns the jobs of a notification: one for every branch with a new commit. Tags,
/// pull requests, discussions, deleted branches and deleted repositories give no jobs.
///
/// # Errors
/// A message for a body that is not a supported notification.
pub(super) fn jobs(body: &[u8]) -> Result<Vec<Job>, String> {
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
    let kind = kind.ok_or("repo.type is none of model, dataset and space")?;
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
        let mut job = Job::new(&repository, branch, commit);
        job.before = before.map(str::to_owned);
        Some(job)
    });
    Ok(jobs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
        let found = jobs(payload().to_string().as_bytes()).unwrap();
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
                jobs(other.to_string().as_bytes()),
                Ok(Vec::new()),
                "{pointer}"
            );
        }
    }

    #[test]
    fn other_bodies_are_refused() {
        assert!(jobs(b"{").is_err());
        assert!(jobs(b"[]").is_err());
        for (pointer, value) in [
            ("/webhook/version", json!(2)),
            ("/repo/type", json!("bucket")),
            ("/repo/name", json!("../etc")),
            ("/repo/name", json!(3)),
        ] {
            let mut other = payload();
            *other.pointer_mut(pointer).unwrap() = value;
            assert!(jobs(other.to_string().as_bytes()).is_err(), "{pointer}");
        }
    }
}
