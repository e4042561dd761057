//! Listings of files and folders, and downloads by name and revision.

use std::collections::BTreeMap;

use hyper::body::Incoming;
use serde_json::{Value, json};

use super::Hub;
use super::http::{Answer, HubRequest, Refusal, empty_response, json_response, pairs, read, set};
use super::repository::{Commit, CommitInfo, Content, POINTER_BYTES, RepoId, StoredFile, Visitor};
use super::repository_requests::find;
use super::storage::memory_response;

impl Hub {
    /// Lists a folder in pages, including all subfolders if `recursive` is set.
    pub(super) fn tree(
        &self,
        request: &HubRequest,
        visitor: Visitor,
        id: &RepoId,
        revision: &str,
        folder: &str,
    ) -> Answer {
        let repositories = self.repositories();
        let repository = visitor.may_see(repositories.get(id))?;
        let commit = find(repository, revision)?;
        let prefix = match folder.trim_matches('/') {
            "" => String::new(),
            folder => format!("{folder}/"),
        };
        let (recursive, expand) = (request.has("recursive"), request.has("expand"));
        let mut entries = BTreeMap::new();
        for (path, file) in &commit.files {
            let Some(rest) = path.strip_prefix(&prefix) else {
                continue;
            };
            let slashes = rest.match_indices('/').map(|(at, _)| prefix.len() + at);
            for slash in slashes.take(if recursive { usize::MAX } else { 1 }) {
                let folder = &path[..slash];
                entries
                    .entry(folder)
                    .or_insert_with(|| describe_folder(folder, commit, expand));
            }
            if recursive || !rest.contains('/') {
                entries.insert(path, self.describe_file(path, file, expand));
            }
        }
        if entries.is_empty() && !prefix.is_empty() {
            return Err(Refusal::entry_not_found());
        }
        let limit = request
            .parameter("limit")
            .and_then(|limit| limit.parse().ok());
        let limit = self
            .options
            .page_len
            .min(limit.unwrap_or(usize::MAX))
            .max(1);
        let start = request
            .parameter("cursor")
            .and_then(|cursor| cursor.parse().ok());
        let start: usize = start.unwrap_or(0);
        let has_more = entries.len() > start + limit;
        let page: Value = entries.into_values().skip(start).take(limit).collect();
        let mut response = json_response(&page);
        if has_more {
            let query = request.raw_query.split('&');
            let query = query.filter(|pair| !pair.is_empty() && !pair.starts_with("cursor="));
            let cursor = format!("cursor={}", start + limit);
            let query: Vec<&str> = query.chain([&*cursor]).collect();
            let (url, path) = (&self.url, &request.raw_path);
            let link = format!("<{url}{path}?{}>; rel=\"next\"", query.join("&"));
            set(&mut response, "link", &link);
        }
        Ok(response)
    }

    /// Describes the requested files and folders; missing paths are omitted.
    pub(super) async fn paths_info(
        &self,
        visitor: Visitor,
        id: &RepoId,
        revision: &str,
        body: Incoming,
    ) -> Answer {
        let body = read(body).await?;
        let (paths, expand) = wanted(&body);
        let repositories = self.repositories();
        let repository = visitor.may_see(repositories.get(id))?;
        let commit = find(repository, revision)?;
        let found = paths.iter().filter_map(|path| {
            let path = path.trim_matches('/');
            if let Some(file) = commit.files.get(path) {
                return Some(self.describe_file(path, file, expand));
            }
            let below = format!("{path}/");
            let mut names = commit.files.keys();
            names
                .any(|name| name.starts_with(&below))
                .then(|| describe_folder(path, commit, expand))
        });
        Ok(json_response(&found.collect()))
    }

    fn describe_file(&self, path: &str, file: &StoredFile, expand: bool) -> Value {
        let mut value = json!({
            "type": "file",
            "path": path,
            "size": file.len_bytes,
            "oid": file.oid,
        });
        if let Content::Large(sha256) = &file.content {
            value["lfs"] = json!({
                "oid": sha256,
                "size": file.len_bytes,
                "pointerSize": POINTER_BYTES,
            });
            if let Some(xet) = self.xet_file(sha256) {
                value["xetHash"] = xet.hash.clone().into();
            }
        }
        if expand {
            value["lastCommit"] = last_commit(&file.commit);
        }
        value
    }
}

fn describe_folder(path: &str, commit: &Commit, expand: bool) -> Value {
    let mut value = json!({
        "type": "directory",
        "path": path,
        "size": 0,
        "oid": commit.info.id,
    });
    if expand {
        value["lastCommit"] = last_commit(&commit.info);
    }
    value
}

fn last_commit(info: &CommitInfo) -> Value {
    json!({ "id": info.id, "title": info.title, "date": info.date })
}

/// Parses the paths in a form or JSON object, and whether details are requested.
fn wanted(body: &[u8]) -> (Vec<String>, bool) {
    if let Ok(value) = serde_json::from_slice::<Value>(body) {
        let paths = value["paths"].as_array().into_iter().flatten();
        let paths = paths.filter_map(|path| path.as_str().map(str::to_owned));
        return (paths.collect(), value["expand"] == true);
    }
    let form = pairs(&String::from_utf8_lossy(body));
    let is_true = |value: &str| value.eq_ignore_ascii_case("true");
    let expand = form
        .iter()
        .any(|(name, value)| name == "expand" && is_true(value));
    let paths = form.into_iter().filter(|(name, _)| name == "paths");
    (paths.map(|(_, path)| path).collect(), expand)
}

impl Hub {
    /// Answers with the bytes of a small file, or redirects to a large one.
    pub(super) fn resolve(
        &self,
        request: &HubRequest,
        visitor: Visitor,
        id: &RepoId,
        revision: &str,
        path: &str,
    ) -> Answer {
        let repositories = self.repositories();
        let repository = visitor.may_see(repositories.get(id))?;
        let commit = find(repository, revision)?;
        visitor.may_read(repository)?;
        let commit_id = &commit.info.id;
        let Some(file) = commit.files.get(path) else {
            let mut response = Refusal::entry_not_found().response();
            set(&mut response, "x-repo-commit", commit_id);
            return Ok(response);
        };
        let mut response = match &file.content {
            Content::Regular(bytes) => {
                let mut response = memory_response(request, bytes);
                set(&mut response, "etag", &format!("\"{}\"", file.oid));
                response
            }
            Content::Large(sha256) => {
                let mut response = empty_response(302);
                set(&mut response, "location", &self.storage_address(sha256));
                set(&mut response, "x-linked-etag", &format!("\"{sha256}\""));
                set(&mut response, "x-linked-size", &file.len_bytes.to_string());
                if let Some(xet) = self.xet_file(sha256) {
                    let (url, kind, name) = (&self.url, id.kind.plural(), &id.name);
                    let token = format!("{url}/api/{kind}/{name}/xet-read-token/{commit_id}");
                    set(&mut response, "x-xet-hash", &xet.hash);
                    set(
                        &mut response,
                        "link",
                        &format!("<{token}>; rel=\"xet-auth\""),
                    );
                }
                response
            }
        };
        set(&mut response, "x-repo-commit", commit_id);
        Ok(response)
    }
}
