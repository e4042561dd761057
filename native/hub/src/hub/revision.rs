//! Revisions and the files in them.

use percent_encoding::utf8_percent_encode;
use serde_json::Value;
use ureq::http::{HeaderMap, header};

use super::client::{path_and_query, problem};
use super::{Hub, Repository};
use zstn::internals::PLAIN;
use zstn::{Location, Result};

/// Pages of one listing; more is a server that never ends.
const MAX_PAGES: usize = 10_000;

/// A file of a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedFile {
    /// Its path.
    pub path: String,
    /// Its length in bytes.
    pub len_bytes: u64,
    /// SHA-256 of its bytes in lower-case hex, if it is stored as a large file.
    pub sha256: Option<String>,
    /// The identifier that git has for the contents.
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

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommitInfo {
    /// First line of its message.
    pub title: String,
    /// The rest.
    pub message: String,
}

impl Hub {
    /// Returns the commit that a branch, tag or commit means.
    ///
    /// # Errors
    /// [`Refusal`](super::Refusal), and errors of the network.
    pub fn commit_of(&self, repository: &Repository, revision: &str) -> Result<String> {
        let path = format!("{}/revision/{}", repository.api(), encoded(revision));
        let (value, _) = self.call(repository, "GET", &path, None)?;
        let commit = value["sha"].as_str().filter(|commit| is_commit(commit));
        commit.map(str::to_owned).ok_or_else(|| {
            let detail = "the hub does not say which commit this is".into();
            problem(&format!("{}{path}", self.endpoint()), detail, None)
        })
    }

    /// Returns what a commit says about itself.
    ///
    /// # Errors
    /// [`Refusal`](super::Refusal), and errors of the network.
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

    /// Lists all files of a revision, in the order of their paths.
    ///
    /// # Errors
    /// [`Refusal`](super::Refusal), and errors of the network.
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
    /// A file that is longer than `max_bytes`, or missing; errors of the network.
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

/// Returns the path of the next page. Whatever host the link names, the hub is
/// asked: the token is for it.
fn next(headers: &HeaderMap) -> Option<String> {
    let link = headers.get(header::LINK)?.to_str().ok()?;
    let next = link.split(',').find(|link| link.contains("rel=\"next\""))?;
    let (_, url) = next.split_once('<')?;
    path_and_query(url.split_once('>')?.0)
}

/// Returns whether a text is the name of a commit.
pub(crate) fn is_commit(text: &str) -> bool {
    (40..=64).contains(&text.len()) && is_hex(text)
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

pub(super) fn encoded(revision: &str) -> String {
    utf8_percent_encode(revision, PLAIN).to_string()
}
