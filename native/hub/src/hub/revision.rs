//! Revisions and their files.

use http::{HeaderMap, header};
use percent_encoding::utf8_percent_encode;
use serde_json::Value;

use super::client::{path_and_query, problem};
use super::{Hub, Repository};
use zstn::internals::PLAIN;
use zstn::{Location, Result};

/// Maximum number of pages of a file list, so that a faulty server cannot send pages
/// forever.
const MAX_PAGES: usize = 10_000;

/// A file of a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedFile {
    /// Path in the repository.
    pub path: String,
    /// Length in bytes.
    pub len_bytes: u64,
    /// SHA-256 of the file in lower-case hex, if it is stored as a large file.
    pub sha256: Option<String>,
    /// The git object ID of the contents.
    pub oid: String,
}

#[cfg(all(test, feature = "worker"))]
impl ListedFile {
    pub(crate) fn for_tests(path: &str, oid: &str) -> Self {
        Self {
            path: path.into(),
            len_bytes: 1,
            sha256: None,
            oid: oid.into(),
        }
    }
}

/// The message of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommitInfo {
    /// First line of the message.
    pub title: String,
    /// The message without its first line.
    pub message: String,
}

impl Hub {
    /// Returns the commit that a branch, tag or commit refers to.
    ///
    /// # Errors
    /// [`Refusal`](super::Refusal) and network errors.
    pub fn commit_of(&self, repository: &Repository, revision: &str) -> Result<String> {
        let path = format!("{}/revision/{}", repository.api(), encoded(revision));
        let (value, _) = self.call(repository, "GET", &path, None)?;
        let commit = value["sha"].as_str().filter(|commit| is_commit(commit));
        commit.map(str::to_owned).ok_or_else(|| {
            let detail = "the hub does not name this commit".into();
            problem(&format!("{}{path}", self.endpoint()), detail, None)
        })
    }

    /// Returns the message of the newest commit of a revision, or `None` if the hub
    /// lists no commit.
    ///
    /// # Errors
    /// [`Refusal`](super::Refusal) and network errors.
    pub fn commit_info(
        &self,
        repository: &Repository,
        revision: &str,
    ) -> Result<Option<CommitInfo>> {
        let path = format!("{}/commits/{}?limit=1", repository.api(), encoded(revision));
        let (value, _) = self.call(repository, "GET", &path, None)?;
        let text = |key: &str| value[0][key].as_str().map(str::to_owned);
        Ok(text("title").map(|title| CommitInfo {
            title,
            message: text("message").unwrap_or_default(),
        }))
    }

    /// Lists all files of a revision, sorted by path.
    ///
    /// # Errors
    /// [`Refusal`](super::Refusal) and network errors.
    pub fn files(&self, repository: &Repository, revision: &str) -> Result<Vec<ListedFile>> {
        let mut path = format!(
            "{}/tree/{}?recursive=true",
            repository.api(),
            encoded(revision)
        );
        let mut files = Vec::new();
        for _ in 0..MAX_PAGES {
            let (page, headers) = self.call(repository, "GET", &path, None)?;
            let entries = page.as_array().map_or(&[][..], Vec::as_slice);
            files.extend(entries.iter().filter_map(listed));
            match next(&headers) {
                Some(next) => path = next,
                None => {
                    files.sort_by(|a: &ListedFile, b| a.path.cmp(&b.path));
                    return Ok(files);
                }
            }
        }
        let detail = format!("the list of files has more than {MAX_PAGES} pages");
        Err(problem(&format!("{}{path}", self.endpoint()), detail, None))
    }

    /// Reads a small file of a revision.
    ///
    /// # Errors
    /// If the file is missing or longer than `max_bytes`; network errors.
    pub fn read_small(
        &self,
        repository: &Repository,
        revision: &str,
        path: &str,
        max_bytes: u64,
    ) -> Result<Vec<u8>> {
        let location = Location::url(repository.file_url(revision, path));
        Ok(location.read_small(&self.http()?, max_bytes)?.0)
    }
}

fn listed(entry: &Value) -> Option<ListedFile> {
    if entry["type"] != "file" {
        return None;
    }
    let sha256 = entry["lfs"]["oid"].as_str().map(str::to_ascii_lowercase);
    Some(ListedFile {
        path: entry["path"].as_str()?.into(),
        len_bytes: entry["size"].as_u64()?,
        sha256: sha256.filter(|digest| is_hex(digest) && digest.len() == 64),
        oid: entry["oid"].as_str().unwrap_or_default().into(),
    })
}

/// Returns the path of the next page. The host of the link is ignored, because the
/// token is meant for this hub only.
fn next(headers: &HeaderMap) -> Option<String> {
    let link = headers.get(header::LINK)?.to_str().ok()?;
    let next = link.split(',').find(|link| link.contains("rel=\"next\""))?;
    let (_, url) = next.split_once('<')?;
    path_and_query(url.split_once('>')?.0)
}

/// Returns whether a text is a commit name.
pub(crate) fn is_commit(text: &str) -> bool {
    (40..=64).contains(&text.len()) && is_hex(text)
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

pub(super) fn encoded(revision: &str) -> String {
    utf8_percent_encode(revision, PLAIN).to_string()
}
