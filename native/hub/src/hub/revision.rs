//! Revisions and their files, and the commits that make new revisions.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, StatusCode, header};
use percent_encoding::utf8_percent_encode;
use serde_json::{Value, json};
use zstn::internals::{Failure, PLAIN};
use zstn::{Error, Location, Result};

use super::client::{is_not_found, path_and_query, problem};
use super::{Hub, Refusal, Repository};

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

/// A file that a commit adds or replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Addition {
    /// A large file, which has been uploaded.
    Large {
        /// Path in the repository.
        path: String,
        /// SHA-256 of the file, in lower-case hex.
        sha256: String,
        /// Length in bytes.
        len_bytes: u64,
    },
    /// A small file, whose bytes are sent with the commit.
    Small {
        /// Path in the repository.
        path: String,
        /// Contents of the file.
        bytes: Vec<u8>,
    },
}

impl Addition {
    /// Returns the path in the repository.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Large { path, .. } | Self::Small { path, .. } => path,
        }
    }

    fn line(&self) -> Value {
        match self {
            Self::Large {
                path,
                sha256,
                len_bytes,
            } => json!({
                "key": "lfsFile",
                "value": { "path": path, "algo": "sha256", "oid": sha256, "size": len_bytes },
            }),
            Self::Small { path, bytes } => json!({
                "key": "file",
                "value": {
                    "path": path,
                    "content": BASE64_STANDARD.encode(bytes),
                    "encoding": "base64",
                },
            }),
        }
    }
}

/// A commit to create.
#[derive(Debug, Clone, Copy)]
pub struct NewCommit<'a> {
    /// The branch to which the commit is added.
    pub branch: &'a str,
    /// The expected current commit of the branch.
    pub parent: &'a str,
    /// First line of the message.
    pub summary: &'a str,
    /// The message without its first line.
    pub description: &'a str,
    /// Files that the commit adds or replaces.
    pub additions: &'a [Addition],
}

impl Hub {
    /// Adds a commit to a branch and returns its name. If the answer to a request is
    /// lost, the commit may exist anyway; the branch is searched for it before the
    /// request is repeated.
    ///
    /// # Errors
    /// [`Refusal::ParentMoved`] if the branch is at another commit than the parent;
    /// other refusals and network errors.
    pub fn commit(&self, repository: &Repository, commit: &NewCommit<'_>) -> Result<String> {
        let header = json!({
            "key": "header",
            "value": {
                "summary": commit.summary,
                "description": commit.description,
                "parentCommit": commit.parent,
            },
        });
        let lines = commit.additions.iter().map(Addition::line);
        let mut body = String::new();
        for line in std::iter::once(header).chain(lines) {
            body.push_str(&line.to_string());
            body.push('\n');
        }
        let path = format!("{}/commit/{}", repository.api(), encoded(commit.branch));
        let body = Some(("application/x-ndjson", body.as_bytes()));
        let moved = StatusCode::PRECONDITION_FAILED.as_u16();
        let mut is_answer_lost = false;
        let sent = self.retrying(|| {
            if is_answer_lost && let Some(made) = self.find_made(repository, commit)? {
                return Ok(made);
            }
            let answer = self.call_once(repository, "POST", &path, body);
            is_answer_lost |= matches!(answer, Err(Failure::Passing { .. }));
            let (answer, _) = answer?;
            let made = answer["commitOid"].as_str().filter(|made| is_commit(made));
            Ok(made.map(str::to_owned).ok_or_else(|| {
                let detail = "the hub does not name the commit it made".into();
                problem(&format!("{}{path}", self.endpoint()), detail, None)
            })?)
        });
        let error = match sent {
            Ok(made) => return Ok(made),
            Err(error) => error,
        };
        if is_answer_lost && let Ok(Some(made)) = self.find_made(repository, commit) {
            return Ok(made);
        }
        Err(match error {
            Error::Http { status, .. } if status == Some(moved) => Refusal::ParentMoved {
                repository: repository.to_string(),
                branch: commit.branch.into(),
            }
            .into(),
            error => error,
        })
    }

    /// Searches the branch for a commit whose answer was lost: the child of the
    /// expected parent, if it has the same title and files. Returns its name.
    fn find_made(&self, repository: &Repository, commit: &NewCommit<'_>) -> Result<Option<String>> {
        let path = format!("{}/commits/{}", repository.api(), encoded(commit.branch));
        let history = match self.call(repository, "GET", &path, None) {
            Ok((history, _)) => history,
            // Some hubs do not list the history. Then only the newest commit can be
            // checked.
            Err(error) if is_not_found(&error) => {
                let head = self.commit_of(repository, commit.branch)?;
                let is_made =
                    head != commit.parent && self.has_additions(repository, &head, commit)?;
                return Ok(is_made.then_some(head));
            }
            Err(error) => return Err(error),
        };
        let entries = history.as_array().map_or(&[][..], Vec::as_slice);
        let parent = entries
            .iter()
            .position(|entry| entry["id"] == commit.parent);
        let child = parent
            .and_then(|parent| parent.checked_sub(1))
            .and_then(|child| entries.get(child))
            .filter(|child| child["title"] == commit.summary)
            .and_then(|child| child["id"].as_str())
            .filter(|child| is_commit(child));
        match child {
            Some(child) if self.has_additions(repository, child, commit)? => {
                Ok(Some(child.to_owned()))
            }
            _ => Ok(None),
        }
    }

    /// Returns whether a revision contains all files of a commit with the same
    /// contents.
    fn has_additions(
        &self,
        repository: &Repository,
        revision: &str,
        commit: &NewCommit<'_>,
    ) -> Result<bool> {
        let files = self.files(repository, revision)?;
        for addition in commit.additions {
            let Some(file) = files.iter().find(|file| file.path == addition.path()) else {
                return Ok(false);
            };
            let is_same = match addition {
                Addition::Large { sha256, .. } => file.sha256.as_ref() == Some(sha256),
                Addition::Small { path, bytes } => {
                    let len_bytes = bytes.len() as u64;
                    file.len_bytes == len_bytes
                        && self.read_small(repository, revision, path, len_bytes)? == *bytes
                }
            };
            if !is_same {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
