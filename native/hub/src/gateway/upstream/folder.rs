//! A folder of repositories as an upstream, answering as a hub would.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::plan_repositories::Planned;
use super::repositories::{File, FileList, Repositories};
use super::{Entry, Page, PageEntries, Refusal};
use crate::gateway::answer_cache::AnswerCache;
use crate::gateway::listing::git_sha1;
use crate::gateway::request::{Revision, component};
use crate::hub::Repository;
use zstn::internals::on_thread;
use zstn::source::HttpOptions;
use zstn::{AsyncSource, Error, Location, Result};
use zstn_serve::path::restored_path;

/// The only branch of every repository.
const BRANCH: &str = "main";

/// Number of entries on a page of a list.
const PAGE_LEN: usize = 1000;

/// Number of repositories that are listed concurrently.
const MAX_LISTS: usize = 32;

/// Number of concurrent reads of unpacked files. It bounds their memory, a chunk each, and
/// the connections to a store.
const MAX_READS: usize = 64;

/// Maximum length in bytes of a file whose SHA-1 is computed for a list. Hubs report
/// such a digest for files up to this length.
const MAX_HASHED_BYTES: u64 = 10 << 20;

/// Maximum number of bytes that are hashed for one list. The remaining digests are
/// computed for later lists.
const MAX_HASHED_IN_ALL: u64 = 64 << 20;

/// Repositories in a folder, all of them readable by every client.
pub(in super::super) struct Folder {
    repositories: Arc<Repositories>,
    turns: Arc<Semaphore>,
    /// Limits the concurrent reads of unpacked files.
    pub(super) reads: Arc<Semaphore>,
    /// Git SHA-1s of small files, by the identities of the files.
    digests: AnswerCache<String>,
}

impl Folder {
    pub(super) fn new(location: &Location, http: &HttpOptions) -> Result<Self> {
        Ok(Self::of(Repositories::new(location, http)?))
    }

    fn of(repositories: Repositories) -> Self {
        Self {
            repositories: Arc::new(repositories),
            turns: Arc::new(Semaphore::new(MAX_LISTS)),
            reads: Arc::new(Semaphore::new(MAX_READS)),
            digests: AnswerCache::new(Duration::MAX),
        }
    }

    pub(super) fn planned(planned: Planned, http: &HttpOptions) -> Self {
        Self::of(Repositories::planned(planned, http))
    }

    pub(super) fn is_remote(&self) -> bool {
        self.repositories.is_remote()
    }

    async fn list(
        &self,
        repository: &Repository,
        revision: Option<&str>,
    ) -> Result<Arc<FileList>, Refusal> {
        if !repository.name().contains('/') {
            let message = format!("{} is not the name of a repository", repository.name());
            return Err(Refusal::new(StatusCode::NOT_FOUND, message).code("RepoNotFound"));
        }
        let (repositories, asked) = (Arc::clone(&self.repositories), repository.clone());
        // The permit is held until the listing ends, even if the client has disconnected,
        // so that a slow store occupies at most `MAX_LISTS` threads.
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let list = move || {
            let _turn = turn;
            repositories.list(&asked)
        };
        let listed = tokio::task::spawn_blocking(list).await;
        let listed = listed.map_err(|error| {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Refusal::new(status, format!("listing {repository} failed: {error}"))
        })?;
        let Some(list) = listed? else {
            let message = format!("there is no repository {repository}");
            return Err(Refusal::new(StatusCode::NOT_FOUND, message).code("RepoNotFound"));
        };
        match revision {
            Some(revision) if revision != BRANCH && revision != list.commit => {
                let message = format!(
                    "{} has no revision {revision}; its files may have changed since it was \
                     requested",
                    repository.name()
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
        let digests = self.digests(repository, list.files.iter()).await;
        let siblings = list.files.iter();
        let siblings = siblings.map(|(path, file)| {
            let digest = digests.get(path).unwrap_or(&file.version);
            json!({"rfilename": path, "size": file.len_bytes, "blobId": digest})
        });
        let siblings: Vec<_> = siblings.collect();
        Ok(json!({
            "id": repository.name(),
            "modelId": repository.name(),
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
        query: Option<&str>,
        is_recursive: bool,
    ) -> Result<Page, Refusal> {
        let list = self
            .list(&revision.repository, Some(&revision.name))
            .await?;
        let prefix = match folder.trim_matches('/') {
            "" => String::new(),
            folder => format!("{folder}/"),
        };
        // `None` marks a folder.
        let mut found: BTreeMap<String, Option<&File>> = BTreeMap::new();
        for (path, file) in list.files.range(prefix.clone()..) {
            let Some(rest) = path.strip_prefix(&prefix) else {
                break;
            };
            let mut names: Vec<_> = rest.match_indices('/').map(|(at, _)| at).collect();
            if !is_recursive {
                names.truncate(1);
            }
            let folders = names.iter().map(|at| format!("{prefix}{}", &rest[..*at]));
            found.extend(folders.map(|folder| (folder, None)));
            if is_recursive || names.is_empty() {
                found.insert(path.clone(), Some(file));
            }
        }
        if found.is_empty() && !prefix.is_empty() {
            return Err(Refusal::no_entry(folder));
        }
        let after = match cursor(query.unwrap_or_default()) {
            Some(cursor) => Bound::Excluded(cursor),
            None => Bound::Unbounded,
        };
        let mut rest = found.range((after, Bound::Unbounded));
        let page: Vec<_> = rest.by_ref().take(PAGE_LEN).collect();
        let next = match (page.last(), rest.next()) {
            (Some((last, _)), Some(_)) => {
                let path = revision.tree(folder.trim_matches('/'));
                let cursor = component(last);
                Some(format!("/{path}?recursive={is_recursive}&cursor={cursor}"))
            }
            _ => None,
        };
        let files = page
            .iter()
            .filter_map(|(path, file)| Some((*path, (**file)?)));
        let digests = self.digests(&revision.repository, files).await;
        let entries = page.into_iter().map(|(path, file)| match file {
            Some(file) => entry(path, file, &digests),
            None => json!({"type": "directory", "path": path, "oid": "0", "size": 0}),
        });
        Ok(Page {
            entries: PageEntries::Whole(entries.collect()),
            next,
        })
    }

    /// Returns the git SHA-1s of small files that are shown unchanged, by path. Files
    /// that cannot be read have none, nor have the files of a remote folder.
    async fn digests(
        &self,
        repository: &Repository,
        files: impl Iterator<Item = (&String, &File)>,
    ) -> HashMap<String, String> {
        if self.is_remote() {
            return HashMap::new();
        }
        let is_small = |(path, file): &(&String, &File)| {
            file.len_bytes <= MAX_HASHED_BYTES && restored_path(path).is_none()
        };
        let _turn = self.turns.acquire().await;
        let mut read_bytes = 0;
        let mut found = HashMap::new();
        for (path, file) in files.filter(is_small) {
            let identity = identity(repository, path, &file.version);
            let cell = self
                .digests
                .cell(*blake3::hash(identity.as_bytes()).as_bytes());
            if cell.get().is_none() && read_bytes + file.len_bytes <= MAX_HASHED_IN_ALL {
                read_bytes += file.len_bytes;
                if let Some(digest) = self.digest(repository, path, file).await {
                    // A concurrent list may have computed the same digest.
                    let _ = cell.set(digest);
                }
            }
            if let Some(digest) = cell.get() {
                found.insert(path.clone(), digest.clone());
            }
        }
        found
    }

    /// Returns the git SHA-1 of a file if it still has the version that was listed.
    async fn digest(&self, repository: &Repository, path: &str, file: &File) -> Option<String> {
        let (source, version) = self.repositories.open(repository, path).await.ok()?;
        if version != file.version {
            return None;
        }
        let bytes = source.read(0..source.len_bytes()).await.ok()?;
        source.check_unchanged().ok()?;
        on_thread(move || Ok(git_sha1(&bytes))).await.ok()
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
                Some(file) => Some((path.to_owned(), Some(file))),
                None if is_folder => Some((path.to_owned(), None)),
                None => None,
            }
        });
        let found: Vec<(String, Option<&File>)> = found.collect();
        let files = found
            .iter()
            .filter_map(|(path, file)| Some((path, (*file)?)));
        let digests = self.digests(&revision.repository, files).await;
        let found = found.iter().map(|(path, file)| match file {
            Some(file) => entry(path, file, &digests),
            None => json!({"type": "directory", "path": path, "oid": "0", "size": 0}),
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

    /// Opens a file if it still has the version that was looked up.
    pub(super) async fn open(
        &self,
        revision: &Revision,
        path: &str,
        entry: &Entry,
    ) -> Result<Arc<dyn AsyncSource>> {
        let repository = &revision.repository;
        let (source, version) = self.repositories.open(repository, path).await?;
        match identity(repository, path, &version) == entry.identity {
            true => Ok(source),
            false => Err(Error::Changed {
                name: format!("{repository}/{path}"),
                detail: String::new(),
            }),
        }
    }

    /// Returns the response to `GET /api/…/refs`.
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

/// Returns the identity of the bytes of a file.
pub(super) fn identity(repository: &Repository, path: &str, version: &str) -> String {
    format!("{repository}/{path} {version}")
}

fn entry(path: &str, file: &File, digests: &HashMap<String, String>) -> Value {
    let oid = digests.get(path).unwrap_or(&file.version);
    json!({"type": "file", "path": path, "size": file.len_bytes, "oid": oid})
}

/// Returns the path after which the requested page begins.
fn cursor(query: &str) -> Option<String> {
    let mut fields = query.split('&');
    let cursor = fields.find_map(|field| field.strip_prefix("cursor="))?;
    let cursor = percent_decode_str(cursor).decode_utf8().ok()?;
    Some(cursor.into_owned())
}

impl std::fmt::Debug for Folder {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.repositories.fmt(out)
    }
}
