//! A model hub for tests that speaks the protocol of the real clients: repositories
//! with commits, uploads by LFS and Xet, downloads, and webhooks.
//!
//! Large files are stored in a folder under their SHA-256 and everything else in
//! memory, until the hub is dropped. The program `stub-hub` offers the same hub to
//! tests in other languages.

mod commit;
mod fault;
mod files;
mod http;
mod repository;
mod repository_requests;
mod route;
mod storage;
mod xet;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

pub use fault::{Fault, LoggedRequest};
use fault::{Faults, Log};
use http::Server;
use repository::{Access, Repositories, Repository};
pub use repository::{RepoId, RepoKind, Role};
pub use repository_requests::Webhook;
use serde_json::{Value, json};
use storage::Blobs;
use xet::Xet;

use crate::{lock, sha256};

/// Settings of a hub.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address to listen on; port 0 selects a free one.
    pub listen: SocketAddr,
    /// The accepted tokens. If there are none, every visitor may do everything.
    pub tokens: Vec<(String, Role)>,
    /// The folder for large files; `None` creates a temporary one.
    pub folder: Option<PathBuf>,
    /// The folder of a local Xet store, for clients that support Xet.
    pub xet: Option<PathBuf>,
    /// Maximum number of entries per page of a listing.
    pub page_len: usize,
    /// Length in bytes above which files are uploaded in parts, and the length of each
    /// part.
    pub part_bytes: Option<u64>,
    /// The receivers of commit notifications.
    pub webhooks: Vec<Webhook>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            tokens: Vec::new(),
            folder: None,
            xet: None,
            page_len: 1000,
            part_bytes: None,
            webhooks: Vec::new(),
        }
    }
}

/// A running hub, which stops when dropped.
#[derive(Debug)]
pub struct StubHub {
    hub: Arc<Hub>,
    _server: Server,
}

impl StubHub {
    /// Starts a hub without repositories.
    ///
    /// # Errors
    /// If the port is taken or the folder cannot be written.
    pub fn start(options: Options) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(options.listen)?;
        let port = listener.local_addr()?.port();
        let hub = Arc::new(Hub {
            url: format!("http://{}:{port}", options.listen.ip()),
            storage_url: format!("http://localhost:{port}"),
            blobs: Blobs::new(options.folder.clone())?,
            xet: options.xet.clone().map(Xet::new).transpose()?,
            access: Access::new(&options.tokens),
            log: Log::default(),
            faults: Faults::default(),
            repositories: Mutex::default(),
            webhooks: Mutex::new(options.webhooks.clone()),
            options,
        });
        let server = Server::start(listener, Arc::clone(&hub))?;
        Ok(Self {
            hub,
            _server: server,
        })
    }

    /// Returns the URL of the hub without a trailing slash.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.hub.url
    }

    /// Commits files to the branch `main`, creates the repository if necessary, and
    /// returns the commit id.
    ///
    /// # Errors
    /// If the folder of large files cannot be written.
    pub fn add(&self, repository: &RepoId, files: &[(&str, &[u8])]) -> io::Result<String> {
        let mut repositories = self.hub.repositories();
        let found = repositories
            .entry(repository.clone())
            .or_insert_with(|| Repository::new(repository.clone()));
        let base = found.find("main").map(|commit| commit.files.clone());
        self.hub.add(found, "main", base.unwrap_or_default(), files)
    }

    /// Points `main` at an existing commit of the repository, as `git push --force`
    /// does. Webhooks are not notified.
    pub fn set_main(&self, repository: &RepoId, commit: &str) {
        if let Some(found) = self.hub.repositories().get_mut(repository) {
            found.refs.insert("refs/heads/main".into(), commit.into());
        }
    }

    /// Sets whether an existing repository is private and gated.
    pub fn restrict(&self, repository: &RepoId, private: bool, gated: bool) {
        if let Some(found) = self.hub.repositories().get_mut(repository) {
            found.private = private;
            found.gated = gated;
        }
    }

    /// Returns the requests since the start or the last [`Self::clear_log`].
    #[must_use]
    pub fn log(&self) -> Vec<LoggedRequest> {
        self.hub.log.all()
    }

    /// Clears the log of requests.
    pub fn clear_log(&self) {
        self.hub.log.clear();
    }

    /// Adds a fault. Newer faults take precedence over older ones.
    pub fn inject(&self, fault: Fault) {
        self.hub.faults.add(fault);
    }

    /// Removes all faults.
    pub fn heal(&self) {
        self.hub.faults.clear();
    }
}

/// The state shared by all requests.
#[derive(Debug)]
struct Hub {
    options: Options,
    url: String,
    /// Base URL of large files, on another origin: clients follow redirects within one
    /// origin even for HEAD requests.
    storage_url: String,
    blobs: Blobs,
    xet: Option<Xet>,
    access: Access,
    log: Log,
    faults: Faults,
    repositories: Mutex<Repositories>,
    webhooks: Mutex<Vec<Webhook>>,
}

impl Hub {
    fn repositories(&self) -> MutexGuard<'_, Repositories> {
        lock(&self.repositories)
    }
}

/// Returns the string at `key` of a JSON object, or an empty one.
fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Adds files to a repository of a hub, and writes a plan that lists the safetensors
/// files among them.
///
/// # Panics
/// If a file cannot be written.
#[must_use]
pub fn plan_of(hub: &StubHub, repository: &str, files: &[(&str, &[u8])], folder: &Path) -> PathBuf {
    let commit = hub
        .add(&RepoId::model(repository), files)
        .expect("the hub takes files");
    let path = folder.join("plan.jsonl");
    let mut text = std::fs::read_to_string(&path).unwrap_or_default();
    for (name, bytes) in files
        .iter()
        .filter(|(name, _)| name.ends_with(".safetensors"))
    {
        let row = json!({
            "repo": repository,
            "revision": commit,
            "path": name,
            "size": bytes.len(),
            "sha256": sha256(bytes),
        });
        text.push_str(&format!("{row}\n"));
    }
    std::fs::write(&path, text).expect("the plan is written");
    path
}
