//! Commits and the preupload requests that precede them.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::http::{Answer, HubRequest, Refusal, json_response, read, read_json};
use super::repository::{CommitInfo, Content, Files, RepoId, Repository, StoredFile, Visitor};
use super::repository_requests::find;
use super::storage::is_sha256;
use super::{Hub, text};

/// Length in bytes above which a file must be uploaded as a large one.
const REGULAR_BYTES: u64 = 10 << 20;

impl Hub {
    /// Answers which files must be uploaded as large ones.
    pub(super) async fn preupload(
        &self,
        visitor: Visitor,
        id: &RepoId,
        revision: &str,
        body: Incoming,
    ) -> Answer {
        let body = read_json(body).await?;
        let repositories = self.repositories();
        let repository = visitor.may_see(repositories.get(id))?;
        visitor.may_write()?;
        let commit = find(repository, revision)?;
        // The repository's own `.gitignore` applies if the client does not send one.
        let hosted = match commit.files.get(".gitignore").map(|file| &file.content) {
            Some(Content::Regular(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        };
        let ignored = body["gitIgnore"].as_str().unwrap_or(&hosted);
        let files = body["files"].as_array().into_iter().flatten().map(|file| {
            let path = text(file, "path");
            let sample = BASE64_STANDARD.decode(text(file, "sample"));
            let sample = sample.map_err(|error| Refusal::bad_request(error.to_string()))?;
            let len_bytes = file["size"].as_u64().unwrap_or_default();
            let is_large = is_large(&commit.files, path, len_bytes, &sample);
            Ok(json!({
                "path": path,
                "uploadMode": if is_large { "lfs" } else { "regular" },
                "shouldIgnore": is_ignored(ignored, path),
                "oid": commit.files.get(path).map(|file| file.comparable()),
            }))
        });
        let files = files.collect::<Result<Value, Refusal>>()?;
        Ok(json_response(
            &json!({ "files": files, "commitOid": commit.info.id }),
        ))
    }

    /// Adds a commit to a branch or as a pull request.
    pub(super) async fn commit(
        self: &Arc<Self>,
        request: &HubRequest,
        visitor: Visitor,
        id: &RepoId,
        revision: &str,
        body: Incoming,
    ) -> Answer {
        let body = read(body).await?;
        let operations = serde_json::Deserializer::from_slice(&body).into_iter::<Value>();
        let operations: Vec<Value> = operations
            .collect::<Result<_, _>>()
            .map_err(|error| Refusal::bad_request(error.to_string()))?;
        let header = operations
            .iter()
            .find(|operation| operation["key"] == "header");
        let header = header.map_or(&Value::Null, |header| &header["value"]);

        let mut repositories = self.repositories();
        visitor.may_see(repositories.get(id))?;
        visitor.may_write()?;
        let repository = repositories
            .get_mut(id)
            .ok_or_else(Refusal::repo_not_found)?;
        let parent = Arc::clone(find(repository, revision)?);
        let expected = header["parentCommit"].as_str();
        if expected.is_some_and(|expected| expected != parent.info.id) {
            let message = "A commit has happened since. Please refresh and try again.";
            return Err(Refusal::new(412, "", message));
        }
        let create_pr = request.has("create_pr");
        let reference = match revision {
            _ if create_pr => format!("refs/pr/{}", repository.pull_requests + 1),
            _ if repository.refs.contains_key(revision) => revision.to_owned(),
            _ => format!("refs/heads/{revision}"),
        };
        if !create_pr && !repository.refs.contains_key(&reference) {
            return Err(Refusal::revision_not_found(revision));
        }
        let (title, message) = (text(header, "summary"), text(header, "description"));
        let info = repository.next_commit(Some(&parent.info.id), title, message, &body);
        let mut files = parent.files.clone();
        for operation in &operations {
            self.apply(&mut files, operation, &info)?;
        }
        let (old, new) = (parent.info.id.clone(), info.id.clone());
        repository.push(&reference, Some(old.clone()), info, files);
        let mut answer = json!({
            "success": true,
            "commitOid": new,
            "commitUrl": format!("{}/{}/commit/{new}", self.url, id.path()),
            "hookOutput": "",
        });
        if create_pr {
            repository.pull_requests += 1;
            let number = repository.pull_requests;
            let url = format!("{}/{}/discussions/{number}", self.url, id.path());
            answer["pullRequestUrl"] = url.into();
        }
        self.notify(repository, &reference, Some(&old), &new);
        Ok(json_response(&answer))
    }

    /// Commits files to a branch without a permission check, and returns the commit.
    /// Files of `base` that are not replaced are retained.
    pub(super) fn add(
        &self,
        repository: &mut Repository,
        branch: &str,
        base: Files,
        files: &[(&str, &[u8])],
    ) -> std::io::Result<String> {
        let reference = format!("refs/heads/{branch}");
        let parent = repository.refs.get(&reference).cloned();
        let content: Vec<String> = files
            .iter()
            .map(|(path, bytes)| format!("{path} {}", crate::sha256(bytes)))
            .collect();
        let content = content.join(" ");
        let info = repository.next_commit(parent.as_deref(), "Add files", "", content.as_bytes());
        let mut all = base;
        for (path, bytes) in files {
            let file = if is_large(&all, path, bytes.len() as u64, bytes) {
                let sha256 = self.blobs.add(bytes)?;
                StoredFile::large(&sha256, bytes.len() as u64, info.clone())
            } else {
                StoredFile::regular(bytes, info.clone())
            };
            all.insert((*path).into(), Arc::new(file));
        }
        let id = info.id.clone();
        repository.push(&reference, parent, info, all);
        Ok(id)
    }

    /// Applies one operation of a commit.
    fn apply(
        &self,
        files: &mut Files,
        operation: &Value,
        info: &CommitInfo,
    ) -> Result<(), Refusal> {
        let value = &operation["value"];
        let path = text(value, "path");
        match text(operation, "key") {
            "header" => {}
            "file" => {
                let content = text(value, "content");
                let bytes = match text(value, "encoding") {
                    "base64" => BASE64_STANDARD
                        .decode(content)
                        .map_err(|error| Refusal::bad_request(error.to_string()))?,
                    _ => content.as_bytes().to_vec(),
                };
                if bytes.len() as u64 > REGULAR_BYTES {
                    let message = format!("{path} is too long for a regular file");
                    return Err(Refusal::new(413, "", message));
                }
                let file = StoredFile::regular(&bytes, info.clone());
                files.insert(path.into(), Arc::new(file));
            }
            "lfsFile" => {
                let oid = text(value, "oid");
                let len_bytes = self.len_of_large(oid).ok_or_else(|| {
                    let message = format!("{path} points to {oid}, which was not uploaded");
                    Refusal::bad_request(message)
                })?;
                if value["size"].as_u64().is_some_and(|said| said != len_bytes) {
                    let message = format!("{path} has {len_bytes} bytes, not {}", value["size"]);
                    return Err(Refusal::bad_request(message));
                }
                let file = StoredFile::large(oid, len_bytes, info.clone());
                files.insert(path.into(), Arc::new(file));
            }
            "deletedFile" => {
                files.remove(path).ok_or_else(|| {
                    let message = "A file with this name doesn't exist";
                    Refusal::new(404, "EntryNotFound", message)
                })?;
            }
            "deletedFolder" => {
                let below = format!("{}/", path.trim_end_matches('/'));
                let len = files.len();
                files.retain(|name, _| !name.starts_with(&below));
                if files.len() == len {
                    let message = "A folder with this name doesn't exist";
                    return Err(Refusal::new(404, "EntryNotFound", message));
                }
            }
            other => return Err(Refusal::bad_request(format!("no such operation: {other}"))),
        }
        Ok(())
    }

    /// Returns the length in bytes of an uploaded large file.
    pub(super) fn len_of_large(&self, oid: &str) -> Option<u64> {
        let known = is_sha256(oid).then(|| self.blobs.len_bytes(oid)).flatten();
        known.or_else(|| Some(self.xet_file(oid)?.len_bytes))
    }
}

/// Returns whether a file must be stored as a large one: it matches a pattern in
/// `.gitattributes`, is too long, or is not text.
pub(super) fn is_large(files: &Files, path: &str, len_bytes: u64, sample: &[u8]) -> bool {
    let attributes = files.get(".gitattributes").map(|file| &file.content);
    let attributes = match attributes {
        Some(Content::Regular(bytes)) => String::from_utf8_lossy(bytes),
        _ => "".into(),
    };
    let mut patterns = attributes.lines().filter_map(|line| {
        let (pattern, rest) = line.split_once(' ')?;
        rest.contains("filter=lfs").then_some(pattern)
    });
    // The sample may end in the middle of a character.
    let is_text = !sample.contains(&0)
        && str::from_utf8(sample).map_or_else(|error| error.error_len().is_none(), |_| true);
    len_bytes > REGULAR_BYTES || !is_text || patterns.any(|pattern| matches(pattern, path))
}

/// Matches a path against a git pattern of the form `*.ending` or a plain name.
fn matches(pattern: &str, path: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(ending) => path.ends_with(ending),
        None => path == pattern || path.ends_with(&format!("/{pattern}")),
    }
}

fn is_ignored(patterns: &str, path: &str) -> bool {
    let mut patterns = patterns.lines().map(str::trim);
    patterns.any(|pattern| !pattern.is_empty() && matches(pattern, path))
}
