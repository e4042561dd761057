//! A model hub for tests, with the requests of the real clients: repositories
//! with commits, uploads by LFS and by Xet, downloads, webhooks.
//!
//! Large files are in a folder under their SHA-256, all else in memory, until
//! the hub is dropped. The program `stub-hub` is the same for other languages.

mod access;
mod answer;
mod blobs;
mod commit;
mod control;
mod fault;
mod info;
mod lfs;
mod log;
mod repository;
mod requests;
mod resolve;
mod route;
mod server;
mod storage;
mod tree;
mod webhook;
mod xet;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

pub use access::Role;
pub use fault::Fault;
pub use log::LoggedRequest;
pub use repository::{RepoId, RepoKind};
pub use webhook::Webhook;

use access::Access;
use blobs::Blobs;
use fault::Faults;
use log::Log;
use repository::{Repositories, Repository};
use server::Server;
use xet::Xet;

/// Settings of a hub.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address it listens at; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Tokens that it knows. Without any, everything is allowed to everyone.
    pub tokens: Vec<(String, Role)>,
    /// The folder for large files; `None` for a temporary one.
    pub folder: Option<PathBuf>,
    /// The folder of a local Xet store, for clients that have Xet.
    pub xet: Option<PathBuf>,
    /// The most entries on one page of a listing.
    pub page_len: usize,
    /// Files longer than this are uploaded in parts of this length, in bytes.
    pub part_bytes: Option<u64>,
    /// The receivers of notifications of commits.
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

/// A running hub, which stops when this is dropped.
#[derive(Debug)]
pub struct StubHub {
    hub: Arc<Hub>,
    _server: Server,
}

impl StubHub {
    /// Starts a hub without repositories.
    ///
    /// # Errors
    /// If the port is taken, or the folder cannot be written.
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

    /// Returns its address, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.hub.url
    }

    /// Commits files to a branch `main`, in a repository that is made if it is
    /// missing, and returns the commit.
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

    /// Sets `main` to a commit that the repository has, as `git push --force` does.
    /// Nobody is notified.
    pub fn set_main(&self, repository: &RepoId, commit: &str) {
        if let Some(found) = self.hub.repositories().get_mut(repository) {
            found.refs.insert("refs/heads/main".into(), commit.into());
        }
    }

    /// Says who may read a repository that exists.
    pub fn restrict(&self, repository: &RepoId, private: bool, gated: bool) {
        if let Some(found) = self.hub.repositories().get_mut(repository) {
            found.private = private;
            found.gated = gated;
        }
    }

    /// Returns the requests since the beginning or the last [`Self::clear_log`].
    #[must_use]
    pub fn log(&self) -> Vec<LoggedRequest> {
        self.hub.log.all()
    }

    /// Forgets the requests so far.
    pub fn clear_log(&self) {
        self.hub.log.clear();
    }

    /// Adds a fault, which applies before those added earlier.
    pub fn inject(&self, fault: Fault) {
        self.hub.faults.add(fault);
    }

    /// Removes all faults.
    pub fn heal(&self) {
        self.hub.faults.clear();
    }
}

/// The state that all requests share.
#[derive(Debug)]
struct Hub {
    options: Options,
    url: String,
    /// Address of large files, of another origin: clients follow redirects
    /// within one origin even where they ask for the headers alone.
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the string at `key` of a JSON object, or an empty one.
fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}
