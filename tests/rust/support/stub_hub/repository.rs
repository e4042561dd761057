//! Repositories and their commits, each with its own list of files; access tokens and
//! the permissions that they grant.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::{HeaderMap, header};
use sha1::{Digest, Sha1};

use super::http::Refusal;
use super::storage::hex;

/// All repositories of a hub, by kind and name.
pub(super) type Repositories = BTreeMap<RepoId, Repository>;

/// Length in bytes of the pointer file that git stores for a large file.
pub(super) const POINTER_BYTES: u64 = 135;

/// The types of repository, which differ in their URLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepoKind {
    /// A model, whose URLs have no prefix.
    Model,
    /// A dataset, at `datasets/NAME`.
    Dataset,
    /// A space, at `spaces/NAME`.
    Space,
}

impl RepoKind {
    /// Returns the word used in JSON payloads, such as `model`.
    pub(super) fn singular(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Dataset => "dataset",
            Self::Space => "space",
        }
    }

    /// Returns the word used in API URLs, such as `models`.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Dataset => "datasets",
            Self::Space => "spaces",
        }
    }

    /// Parses the singular or plural word.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let all = [Self::Model, Self::Dataset, Self::Space];
        all.into_iter()
            .find(|kind| [kind.singular(), kind.plural()].contains(&text))
    }
}

/// Type and name of a repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RepoId {
    /// The type of repository.
    pub kind: RepoKind,
    /// Owner and name, such as `me/model`.
    pub name: String,
}

impl RepoId {
    /// Returns the id of the model repository called `name`.
    #[must_use]
    pub fn model(name: &str) -> Self {
        Self {
            kind: RepoKind::Model,
            name: name.into(),
        }
    }

    /// Returns the path in URLs, such as `datasets/me/data` or `me/model`.
    pub(super) fn path(&self) -> String {
        match self.kind {
            RepoKind::Model => self.name.clone(),
            kind => format!("{}/{}", kind.plural(), self.name),
        }
    }
}

/// Where the bytes of a file are stored.
#[derive(Debug)]
pub(super) enum Content {
    Regular(Arc<[u8]>),
    /// In the folder of large files, under this SHA-256.
    Large(String),
}

/// A file in a commit.
#[derive(Debug)]
pub(super) struct StoredFile {
    pub(super) len_bytes: u64,
    /// The git object id.
    pub(super) oid: String,
    pub(super) content: Content,
    /// The commit that added the file.
    pub(super) commit: CommitInfo,
}

impl StoredFile {
    pub(super) fn regular(bytes: &[u8], commit: CommitInfo) -> Self {
        Self {
            len_bytes: bytes.len() as u64,
            oid: git_id(bytes),
            content: Content::Regular(bytes.into()),
            commit,
        }
    }

    pub(super) fn large(sha256: &str, len_bytes: u64, commit: CommitInfo) -> Self {
        Self {
            len_bytes,
            oid: git_id(format!("sha256:{sha256} {len_bytes}").as_bytes()),
            content: Content::Large(sha256.into()),
            commit,
        }
    }

    /// Returns the id that a client compares with its local file.
    pub(super) fn comparable(&self) -> &str {
        match &self.content {
            Content::Regular(_) => &self.oid,
            Content::Large(sha256) => sha256,
        }
    }
}

/// The metadata of a commit that listings contain.
#[derive(Debug, Clone)]
pub(super) struct CommitInfo {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) message: String,
    pub(super) date: String,
}

pub(super) type Files = BTreeMap<String, Arc<StoredFile>>;

#[derive(Debug)]
pub(super) struct Commit {
    pub(super) info: CommitInfo,
    pub(super) parent: Option<String>,
    pub(super) files: Files,
}

#[derive(Debug)]
pub(super) struct Repository {
    pub(super) id: RepoId,
    pub(super) private: bool,
    pub(super) gated: bool,
    pub(super) commits: BTreeMap<String, Arc<Commit>>,
    /// Commit ids by full reference name, such as `refs/heads/main`.
    pub(super) refs: BTreeMap<String, String>,
    pub(super) pull_requests: usize,
}

/// Patterns of large files that a new repository lists in `.gitattributes`.
const LARGE: [&str; 7] = [
    "*.bin",
    "*.gguf",
    "*.h5",
    "*.onnx",
    "*.pt",
    "*.safetensors",
    "*.zip",
];

impl Repository {
    /// Creates a repository whose first commit contains a `.gitattributes` file.
    pub(super) fn new(id: RepoId) -> Self {
        let mut repository = Self::without_commits(id);
        let lines = LARGE.map(|name| format!("{name} filter=lfs diff=lfs merge=lfs -text\n"));
        let lines = lines.concat();
        let info = repository.next_commit(None, "initial commit", "", lines.as_bytes());
        let file = StoredFile::regular(lines.as_bytes(), info.clone());
        let files = Files::from([(".gitattributes".into(), Arc::new(file))]);
        repository.push("refs/heads/main", None, info, files);
        repository
    }

    pub(super) fn without_commits(id: RepoId) -> Self {
        Self {
            id,
            private: false,
            gated: false,
            commits: BTreeMap::new(),
            refs: BTreeMap::new(),
            pull_requests: 0,
        }
    }

    /// Resolves a branch, a tag, a full reference name or a commit id to its commit.
    pub(super) fn find(&self, revision: &str) -> Option<&Arc<Commit>> {
        let id = ["refs/heads/", "refs/tags/", ""]
            .iter()
            .find_map(|prefix| self.refs.get(&format!("{prefix}{revision}")))
            .map_or(revision, |id| &**id);
        self.commits.get(id).or_else(|| {
            let is_short = (7..40).contains(&id.len());
            let mut found = self
                .commits
                .iter()
                .filter(|(known, _)| known.starts_with(id));
            is_short
                .then(|| found.next())
                .flatten()
                .map(|(_, commit)| commit)
        })
    }

    /// Returns the metadata of the next commit, whose changes are `content`. Commits
    /// are dated one minute apart.
    pub(super) fn next_commit(
        &self,
        parent: Option<&str>,
        title: &str,
        message: &str,
        content: &[u8],
    ) -> CommitInfo {
        let number = self.commits.len();
        let mut state = Sha1::new();
        // Clients cache listings by commit id, so different contents must have
        // different ids.
        state.update(format!("{} {number} {parent:?} {title}", self.id.path()).as_bytes());
        state.update(content);
        CommitInfo {
            id: hex(&state.finalize()),
            title: title.into(),
            message: message.into(),
            date: format!(
                "2026-01-01T{:02}:{:02}:00.000Z",
                number / 60 % 24,
                number % 60
            ),
        }
    }

    /// Adds a commit and points a reference at it.
    pub(super) fn push(
        &mut self,
        reference: &str,
        parent: Option<String>,
        info: CommitInfo,
        files: Files,
    ) {
        let id = info.id.clone();
        let commit = Commit {
            info,
            parent,
            files,
        };
        self.commits.insert(id.clone(), Arc::new(commit));
        self.refs.insert(reference.into(), id);
    }
}

/// Returns the git object id of a blob with these bytes.
fn git_id(bytes: &[u8]) -> String {
    let mut hasher = Sha1::new();
    hasher.update(format!("blob {}\0", bytes.len()).as_bytes());
    hasher.update(bytes);
    hex(&hasher.finalize())
}

/// The permissions of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Reads and writes everything.
    Write,
    /// Reads all repositories except gated ones.
    Read,
}

/// All tokens that a hub accepts.
#[derive(Debug)]
pub(super) struct Access {
    tokens: BTreeMap<String, Role>,
}

/// The sender of a request, identified by its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Visitor {
    role: Option<Role>,
    /// True if the hub has tokens at all.
    is_closed: bool,
}

impl Access {
    pub(super) fn new(tokens: &[(String, Role)]) -> Self {
        Self {
            tokens: tokens.iter().cloned().collect(),
        }
    }

    /// Identifies the sender of a request from its headers.
    ///
    /// # Errors
    /// If the token is unknown.
    pub(super) fn visitor(&self, headers: &HeaderMap) -> Result<Visitor, Refusal> {
        let is_closed = !self.tokens.is_empty();
        let token = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("Bearer "));
        let role = match token {
            _ if !is_closed => Some(Role::Write),
            None => None,
            Some(token) => match self.tokens.get(token) {
                Some(role) => Some(*role),
                // Clients compare this message literally.
                None => {
                    let message = "Invalid credentials in Authorization header";
                    return Err(Refusal::new(401, "", message));
                }
            },
        };
        Ok(Visitor { role, is_closed })
    }
}

impl Visitor {
    /// Returns the role of the token; `None` for requests without a token.
    pub(super) fn role(self) -> Option<Role> {
        self.role
    }

    /// Refuses visitors who may not write.
    pub(super) fn may_write(self) -> Result<(), Refusal> {
        match self.role {
            Some(Role::Write) => Ok(()),
            Some(Role::Read) => Err(Refusal::new(
                403,
                "",
                "Forbidden: this token may only read; a token with write access is needed.",
            )),
            None => Err(Refusal::new(401, "", "Invalid username or password.")),
        }
    }

    /// Refuses visitors who may not know that a repository exists. On a hub with
    /// tokens, a visitor without one gets the same answer for private and missing
    /// repositories.
    pub(super) fn may_see(self, repository: Option<&Repository>) -> Result<&Repository, Refusal> {
        match repository {
            Some(found) if !found.private || self.role.is_some() => Ok(found),
            None if !self.is_closed || self.role.is_some() => Err(Refusal::repo_not_found()),
            _ => Err(Refusal::new(
                401,
                "RepoNotFound",
                "Invalid username or password.",
            )),
        }
    }

    /// Refuses visitors who may not read the files of a repository.
    pub(super) fn may_read(self, repository: &Repository) -> Result<(), Refusal> {
        let name = &repository.id.name;
        match self.role {
            _ if !repository.gated => Ok(()),
            Some(Role::Write) => Ok(()),
            Some(Role::Read) => Err(Refusal::new(
                403,
                "GatedRepo",
                format!("{name} is gated and your account has no access; ask its authors."),
            )),
            None => Err(Refusal::new(
                401,
                "GatedRepo",
                format!("{name} is gated; log in with an account that has access."),
            )),
        }
    }
}
