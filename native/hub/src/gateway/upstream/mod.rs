//! The hub, or the folder of repositories, that holds the packed files.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, header};
use serde_json::Value;

use super::request::Revision;
use crate::hub::Repository;
use crate::manifest::{Results, Row};
use zstn::source::HttpOptions;
use zstn::{AsyncSource, Location, Result};

mod arriving_list;
mod error_answer;
mod folder;
mod hub;
mod pass_through;
mod plan_repositories;
mod repositories;
mod restored_cache;
mod stored_files;

use arriving_list::ArrivingList;
pub(super) use error_answer::Refusal;
pub(super) use folder::Folder;
pub(super) use hub::{Hub, Loaded};
use plan_repositories::Planned;

/// The source of the files and file lists that the gateway shows.
#[derive(Debug)]
pub(super) enum Upstream {
    Hub(Box<Hub>),
    Folder(Arc<Folder>),
}

/// The credentials of a client. They accompany the upstream requests made for that
/// client and are dropped with its request.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Permissions(Option<HeaderValue>);

/// A file that exists and that the client may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The commit that the file was looked up in, if known.
    pub(super) commit: Option<String>,
    /// Identifies the bytes of the file; different bytes have different identities.
    pub(super) identity: String,
    pub(super) len_bytes: u64,
}

/// A page of a file list.
pub(super) struct Page {
    entries: PageEntries,
    /// Path and query of the next page, if there is one.
    pub(super) next: Option<String>,
}

enum PageEntries {
    Whole(Vec<Value>),
    Arriving(Box<ArrivingList>),
}

impl Page {
    /// Returns the next entries. A hub's list is returned in groups of limited size.
    pub(super) async fn group(&mut self) -> Result<Vec<Value>, Refusal> {
        match &mut self.entries {
            PageEntries::Whole(entries) => Ok(std::mem::take(entries)),
            PageEntries::Arriving(list) => list.group().await,
        }
    }

    /// Returns whether all entries have been returned.
    pub(super) fn is_over(&self) -> bool {
        match &self.entries {
            PageEntries::Whole(entries) => entries.is_empty(),
            PageEntries::Arriving(list) => list.is_over(),
        }
    }
}

impl Permissions {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut value = headers.get(header::AUTHORIZATION).cloned();
        if let Some(value) = &mut value {
            value.set_sensitive(true);
        }
        Self(value)
    }

    pub(super) fn value(&self) -> Option<&HeaderValue> {
        self.0.as_ref()
    }
}

impl Upstream {
    pub(super) fn new(location: &Location, http: &HttpOptions) -> Result<Self> {
        let http = &http.limits();
        match location {
            Location::Url(url) if location.origin().is_some() => {
                Hub::new(url, http).map(|hub| Self::Hub(Box::new(hub)))
            }
            _ => Ok(Self::Folder(Arc::new(Folder::new(location, http)?))),
        }
    }

    /// Returns an upstream for the repositories of `rows`, whose packed files are in
    /// the folder `results`.
    pub(super) fn planned(
        results: &Location,
        rows: Vec<Row>,
        restored_bytes: u64,
        http: &HttpOptions,
    ) -> Result<Self> {
        let http = &http.limits();
        let results = Results::open(results, http)?;
        let planned = Planned::new(results, rows, restored_bytes, http)?;
        Ok(Self::Folder(Arc::new(Folder::planned(planned, http))))
    }

    /// Returns whether the files are on another machine.
    pub(super) fn is_remote(&self) -> bool {
        match self {
            Self::Hub(_) => true,
            Self::Folder(folder) => folder.is_remote(),
        }
    }

    /// Returns the identity of the bytes of a file with the upstream's ETag or version
    /// `tag`.
    pub(super) fn identity(
        &self,
        repository: &Repository,
        path: &str,
        tag: &str,
        len_bytes: u64,
    ) -> String {
        match self {
            Self::Hub(_) => hub::identity(repository, path, tag, len_bytes),
            Self::Folder(_) => folder::identity(repository, path, tag),
        }
    }

    /// Returns the response to `GET /api/…/OWNER/NAME`.
    pub(super) async fn info(
        &self,
        repository: &Repository,
        revision: Option<&str>,
        query: Option<&str>,
        permissions: &Permissions,
    ) -> Result<Loaded, Refusal> {
        match self {
            Self::Hub(hub) => hub.info(repository, revision, query, permissions).await,
            Self::Folder(folder) => folder.info(repository, revision).await.map(Loaded::from),
        }
    }

    /// Returns a page of the files in a folder.
    pub(super) async fn tree(
        &self,
        revision: &Revision,
        folder: &str,
        query: Option<&str>,
        permissions: &Permissions,
    ) -> Result<Page, Refusal> {
        match self {
            Self::Hub(hub) => hub.page(revision, folder, query, permissions).await,
            Self::Folder(upstream) => {
                let fields = query.unwrap_or_default();
                let is_recursive = ["recursive=true", "recursive=True", "recursive=1"]
                    .iter()
                    .any(|asked| fields.split('&').any(|part| part == *asked));
                upstream.tree(revision, folder, query, is_recursive).await
            }
        }
    }

    /// Returns the entries of those `paths` that exist.
    pub(super) async fn paths_info(
        &self,
        revision: &Revision,
        paths: &[String],
        is_expanded: bool,
        permissions: &Permissions,
    ) -> Result<Vec<Value>, Refusal> {
        match self {
            Self::Hub(hub) => {
                hub.paths_info(revision, paths, is_expanded, permissions)
                    .await
            }
            Self::Folder(folder) => folder.paths_info(revision, paths).await,
        }
    }

    /// Returns the entry of a file if it exists and may be looked up with
    /// `permissions`.
    pub(super) async fn look(
        &self,
        revision: &Revision,
        path: &str,
        permissions: &Permissions,
    ) -> Result<Entry, Refusal> {
        match self {
            Self::Hub(hub) => hub.look(revision, path, permissions).await,
            Self::Folder(folder) => folder.look(revision, path).await,
        }
    }

    /// Checks that a file's bytes may be read with `permissions`. An entry is no proof
    /// of that: any user can copy an LFS pointer to another user's object into a
    /// repository.
    pub(super) async fn prove(
        &self,
        revision: &Revision,
        path: &str,
        entry: &Entry,
        permissions: &Permissions,
    ) -> Result<(), Refusal> {
        match self {
            Self::Hub(hub) => hub.prove(revision, path, entry, permissions).await,
            // Every client may read every file of a folder.
            Self::Folder(_) => Ok(()),
        }
    }

    /// Opens a file that was looked up.
    pub(super) async fn open(
        &self,
        revision: &Revision,
        path: &str,
        entry: &Entry,
        permissions: &Permissions,
    ) -> Result<Arc<dyn AsyncSource>> {
        match self {
            Self::Hub(hub) => hub.open(revision, path, permissions).await,
            Self::Folder(folder) => folder.open(revision, path, entry).await,
        }
    }
}
