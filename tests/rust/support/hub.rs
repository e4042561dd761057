//! A model hub that serves repositories with commits and redirects to a second server
//! for large files.

use crate::round_server::{Page, RoundServer};
use crate::sha256;

/// Maximum length in bytes of the files that the hub itself serves.
const SMALL_BYTES: usize = 1000;

/// A running hub, which serves until the process ends.
#[derive(Debug)]
pub struct Hub {
    /// The server of the hub itself.
    pub server: RoundServer,
    /// The server of large files, on another origin.
    pub storage: RoundServer,
}

impl Hub {
    /// Starts a hub without repositories.
    #[must_use]
    pub fn start() -> Self {
        Self {
            server: RoundServer::start(),
            storage: RoundServer::start(),
        }
    }

    /// Returns the URL of the hub without a trailing slash.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        self.server.url.trim_end_matches('/')
    }

    /// Adds files of `repository` at `revision`, a branch or commit. The responses
    /// state that they belong to `commit`. File names and revisions are percent-encoded
    /// as in URLs.
    pub fn add(&self, repository: &str, revision: &str, commit: &str, files: &[(&str, &[u8])]) {
        for (name, bytes) in files {
            let digest = sha256(bytes);
            let commit = format!("X-Repo-Commit: {commit}");
            let page = if bytes.len() <= SMALL_BYTES {
                Page::FileWith(vec![commit], bytes.to_vec())
            } else {
                let place = self.storage.add(&digest, Page::File(bytes.to_vec()));
                let lines = vec![
                    commit,
                    format!("Location: {place}?signature=secret"),
                    format!("X-Linked-Etag: \"{digest}\""),
                    format!("X-Linked-Size: {}", bytes.len()),
                ];
                Page::Answer("302 Found", lines)
            };
            let path = format!("{repository}/resolve/{revision}/{name}");
            self.server.add(&path, page);
        }
    }

    /// Makes the hub refuse requests for a file in `main` with a status, an error code
    /// and a message.
    pub fn refuse(&self, file: &str, status: &'static str, code: &str, message: &str) {
        let (repository, name) = file.rsplit_once('/').unwrap_or_default();
        let lines = [("X-Error-Code", code), ("X-Error-Message", message)];
        let lines = lines.iter().filter(|(_, value)| !value.is_empty());
        let lines = lines.map(|(name, value)| format!("{name}: {value}"));
        let page = Page::Answer(status, lines.collect());
        self.server
            .add(&format!("{repository}/resolve/main/{name}"), page);
    }
}
