//! Repositories with their commits, each of which keeps its files.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha1::{Digest, Sha1};

use super::blobs::hex;

/// All repositories of a hub.
pub(super) type Repositories = BTreeMap<RepoId, Repository>;

/// Length of the pointer file that git has for a large file, in bytes.
pub(super) const POINTER_BYTES: u64 = 135;

/// A kind of repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepoKind {
    /// `MODEL`, whose addresses have no prefix.
    Model,
    /// `datasets/NAME`.
    Dataset,
    /// `spaces/NAME`.
    Space,
}

impl RepoKind {
    /// Returns the word in payloads: `model`.
    pub(super) fn singular(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Dataset => "dataset",
            Self::Space => "space",
        }
    }

    /// Returns the word in addresses of the API: `models`.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Dataset => "datasets",
            Self::Space => "spaces",
        }
    }

    /// Reads either word.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let all = [Self::Model, Self::Dataset, Self::Space];
        all.into_iter()
            .find(|kind| [kind.singular(), kind.plural()].contains(&text))
    }
}

/// Kind and name of a repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RepoId {
    /// The kind.
    pub kind: RepoKind,
    /// Owner and name: `me/model`.
    pub name: String,
}

impl RepoId {
    /// Returns the name of a model.
    #[must_use]
    pub fn model(name: &str) -> Self {
        Self {
            kind: RepoKind::Model,
            name: name.into(),
        }
    }

    /// Returns the path in addresses: `datasets/me/data`, `me/model`.
    pub(super) fn path(&self) -> String {
        match self.kind {
            RepoKind::Model => self.name.clone(),
            kind => format!("{}/{}", kind.plural(), self.name),
        }
    }
}

/// The place of a file's bytes.
#[derive(Debug)]
pub(super) enum Content {
    Regular(Arc<[u8]>),
    /// Among the large files, under its SHA-256.
    Large(String),
}

/// A file of a commit.
#[derive(Debug)]
pub(super) struct StoredFile {
    pub(super) len_bytes: u64,
    /// The object in git.
    pub(super) oid: String,
    pub(super) content: Content,
    /// The commit that added it.
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

    /// Returns what a client compares with its own file.
    pub(super) fn comparable(&self) -> &str {
        match &self.content {
            Content::Regular(_) => &self.oid,
            Content::Large(sha256) => sha256,
        }
    }
}

/// A commit as listings describe it.
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
    /// Commits by their full names, such as `refs/heads/main`.
    pub(super) refs: BTreeMap<String, String>,
    pub(super) pull_requests: usize,
}

/// Line of `.gitattributes` for each kind of large file that a new repository
/// knows.
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
    /// Returns a repository whose first commit has a `.gitattributes`.
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

    /// Returns the commit of a branch, a tag, a full name or a commit.
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

    /// Returns what the next commit will be called, whose changes are
    /// `content`. Commits are a minute apart.
    pub(super) fn next_commit(
        &self,
        parent: Option<&str>,
        title: &str,
        message: &str,
        content: &[u8],
    ) -> CommitInfo {
        let number = self.commits.len();
        let mut state = Sha1::new();
        // Clients keep listings by commit, so another content has another name.
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

    /// Adds a commit, and makes a branch point to it.
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

/// Returns the name that git has for these bytes.
fn git_id(bytes: &[u8]) -> String {
    let mut hasher = Sha1::new();
    hasher.update(format!("blob {}\0", bytes.len()).as_bytes());
    hasher.update(bytes);
    hex(&hasher.finalize())
}
