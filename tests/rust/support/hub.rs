//! A model hub: repositories with commits, whose large files are on another
//! server.

use crate::round_server::{Page, RoundServer};
use crate::sha256;

/// Files of at most this length are answered by the hub itself, in bytes.
const SMALL_BYTES: usize = 1000;

/// A running hub, which stays until the process ends.
#[derive(Debug)]
pub struct Hub {
    /// The hub itself.
    pub server: RoundServer,
    /// The server of large files, which has another origin.
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

    /// Returns the address of the hub.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        self.server.url.trim_end_matches('/')
    }

    /// Adds files of `repository` in `revision`, a branch or commit, which all
    /// belong to `commit`. Names of files and revisions are as in addresses.
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

    /// Refuses a file in `main`, as hubs do, with a status, a code and a message.
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
