//! A folder of repositories as an upstream: what a hub would say about it.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::planned::Planned;
use super::repositories::{File, FileList, Repositories};
use super::{Entry, Page, Refusal};
use crate::gateway::request::{Repository, Revision};
use crate::source::{HttpOptions, Source};
use crate::{Error, Location, Result};

/// The only branch.
const BRANCH: &str = "main";

/// Repositories in a folder, all readable by everybody.
#[derive(Debug)]
pub(in super::super) struct Folder(Arc<Repositories>);

impl Folder {
    pub(super) fn new(location: &Location, http: &HttpOptions) -> Result<Self> {
        Ok(Self(Arc::new(Repositories::new(location, http)?)))
    }

    pub(super) fn planned(planned: Planned, http: &HttpOptions) -> Self {
        Self(Arc::new(Repositories::planned(planned, http)))
    }

    pub(super) fn is_remote(&self) -> bool {
        self.0.is_remote()
    }

    async fn list(
        &self,
        repository: &Repository,
        revision: Option<&str>,
    ) -> Result<Arc<FileList>, Refusal> {
        if !repository.id.contains('/') {
            let message = format!("{} is not the name of a repository", repository.id);
            return Err(Refusal::new(StatusCode::NOT_FOUND, message).code("RepoNotFound"));
        }
        let (repositories, asked) = (Arc::clone(&self.0), repository.clone());
        let listed = tokio::task::spawn_blocking(move || repositories.list(&asked)).await;
        let listed = listed.map_err(|error| {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Refusal::new(status, format!("listing {} failed: {error}", repository.id))
        })?;
        let Some(list) = listed? else {
            let message = format!("there is no repository {}", repository.prefix());
            return Err(Refusal::new(StatusCode::NOT_FOUND, message).code("RepoNotFound"));
        };
        match revision {
            Some(revision) if revision != BRANCH && revision != list.commit => {
                let message = format!(
                    "{} has no revision {revision}; its files may have changed since it was asked \
                     for",
                    repository.id
                );
                Err(Refusal::new(StatusCode::NOT_FOUND, message).code("RevisionNotFound"))
            }
            _ => Ok(list),
        }
    }

    pub(super) async fn info(
        &self,
        repository: &Repository,
        revision: Option<&str>,
    ) -> Result<Value, Refusal> {
        let list = self.list(repository, revision).await?;
        let siblings = list.files.iter();
        let siblings: Vec<_> = siblings
            .map(|(path, file)| {
                json!({"rfilename": path, "size": file.len_bytes, "blobId": file.version})
            })
            .collect();
        Ok(json!({
            "id": repository.id,
            "modelId": repository.id,
            "sha": list.commit,
            "private": false,
            "gated": false,
            "disabled": false,
            "tags": [],
            "downloads": 0,
            "likes": 0,
            "siblings": siblings,
        }))
    }

    pub(super) async fn tree(
        &self,
        revision: &Revision,
        folder: &str,
        is_recursive: bool,
    ) -> Result<Page, Refusal> {
        let list = self
            .list(&revision.repository, Some(&revision.name))
            .await?;
        let prefix = match folder.trim_matches('/') {
            "" => String::new(),
            folder => format!("{folder}/"),
        };
        let mut folders = BTreeSet::new();
        let mut entries = Vec::new();
        for (path, file) in &list.files {
            let Some(rest) = path.strip_prefix(&prefix) else {
                continue;
            };
            let mut names: Vec<_> = rest.match_indices('/').map(|(at, _)| at).collect();
            if !is_recursive {
                names.truncate(1);
            }
            folders.extend(names.iter().map(|at| format!("{prefix}{}", &rest[..*at])));
            if is_recursive || names.is_empty() {
                entries.push(entry(path, file));
            }
        }
        if entries.is_empty() && folders.is_empty() && !prefix.is_empty() {
            return Err(Refusal::no_entry(folder));
        }
        let folders = folders.into_iter();
        let folders =
            folders.map(|path| json!({"type": "directory", "path": path, "oid": "0", "size": 0}));
        Ok(Page {
            entries: folders.chain(entries).collect(),
            next: None,
        })
    }

    pub(super) async fn paths_info(
        &self,
        revision: &Revision,
        paths: &[String],
    ) -> Result<Vec<Value>, Refusal> {
        let list = self
            .list(&revision.repository, Some(&revision.name))
            .await?;
        let found = paths.iter().filter_map(|path| {
            let path = path.trim_matches('/');
            let prefix = format!("{path}/");
            let mut after = list.files.range(prefix.clone()..);
            let is_folder = after
                .next()
                .is_some_and(|(file, _)| file.starts_with(&prefix));
            match list.files.get(path) {
                Some(file) => Some(entry(path, file)),
                None if is_folder => {
                    Some(json!({"type": "directory", "path": path, "oid": "0", "size": 0}))
                }
                None => None,
            }
        });
        Ok(found.collect())
    }

    pub(super) async fn look(&self, revision: &Revision, path: &str) -> Result<Entry, Refusal> {
        let list = self
            .list(&revision.repository, Some(&revision.name))
            .await?;
        let file = list
            .files
            .get(path)
            .ok_or_else(|| Refusal::no_entry(path))?;
        Ok(Entry {
            commit: Some(list.commit.clone()),
            identity: identity(&revision.repository, path, &file.version),
            len_bytes: file.len_bytes,
        })
    }

    /// Opens a file, if it is still the one that was looked at.
    pub(super) fn open(
        &self,
        revision: &Revision,
        path: &str,
        entry: &Entry,
    ) -> Result<Box<dyn Source>> {
        let repository = &revision.repository;
        let (source, version) = self.0.open(repository, path)?;
        match identity(repository, path, &version) == entry.identity {
            true => Ok(source),
            false => Err(Error::Changed {
                name: format!("{}/{path}", repository.prefix()),
                detail: String::new(),
            }),
        }
    }

    /// Returns what `GET /api/…/refs` is answered with.
    pub(in super::super) async fn refs(&self, repository: &Repository) -> Result<Value, Refusal> {
        let list = self.list(repository, None).await?;
        let branch = json!({
            "name": BRANCH,
            "ref": format!("refs/heads/{BRANCH}"),
            "targetCommit": list.commit,
        });
        Ok(json!({"branches": [branch], "converts": [], "tags": []}))
    }
}

/// Returns the name of the bytes of a file.
pub(super) fn identity(repository: &Repository, path: &str, version: &str) -> String {
    format!("{}/{path} {version}", repository.prefix())
}

fn entry(path: &str, file: &File) -> Value {
    json!({"type": "file", "path": path, "size": file.len_bytes, "oid": file.version})
}
