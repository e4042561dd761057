//! Files over HTTP with what lazy readers need: ranges, CORS, ETag. Beside
//! every `NAME.zstn` there is a `NAME.safetensors`, decoded as it is asked for.
//! Meant for demos, tests and a look at a local model from a browser.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::watch;

use crate::{Engine, Error, Result};
use access::Access;
use connections::Connections;
use root::Root;
use site::Site;
use unpacked::Unpacked;

mod access;
mod answer;
mod connections;
mod file;
mod listing;
mod path;
mod range;
mod root;
mod served;
mod site;
mod stall;
mod unpacked;

pub use connections::Limits;
pub use served::{Note, Served};

/// Decoded tensors that a server keeps unless it is told otherwise, in bytes.
pub const CACHE_BYTES: u64 = 256 << 20;

/// A server that is listening but does not answer yet.
#[derive(Debug)]
pub struct Server {
    root: Root,
    access: Access,
    listener: std::net::TcpListener,
    address: SocketAddr,
    engine: Option<Engine>,
    cache_bytes: u64,
    limits: Limits,
    handle: Handle,
}

/// Stops a server from elsewhere.
#[derive(Debug, Clone)]
pub struct Handle {
    stop: Arc<watch::Sender<bool>>,
    open: Arc<AtomicUsize>,
}

impl Handle {
    /// Makes [`Server::run`] return: at once, or a few seconds later where
    /// answers are under way.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Returns how many connections are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

impl Server {
    /// Listens at `address` (port 0: any free one) for files below `root`.
    ///
    /// Hidden files are not served, and links only where they stay in the
    /// folder, or lead from a snapshot of a model hub's cache to its files.
    ///
    /// # Errors
    /// If there is no such folder, or the port is taken.
    pub fn bind(root: &Path, address: SocketAddr) -> Result<Self> {
        let shown = root.display();
        let fail = |error| Error::io(format!("serve the folder {shown}"), error);
        if root.is_file() {
            let folder = root
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            return Err(Error::Usage(format!(
                "{shown} is a file; serve the folder it is in: {}",
                folder.display()
            )));
        }
        let root = Root::new(root).map_err(fail)?;
        root.folder().read_dir().map_err(fail)?;
        let fail = |error: io::Error| {
            let error = match error.kind() {
                io::ErrorKind::AddrInUse => {
                    let sentence = "the port is in use; port 0 takes any free one";
                    io::Error::new(error.kind(), sentence)
                }
                _ => error,
            };
            Error::io(format!("listen at {address}"), error)
        };
        let listener = std::net::TcpListener::bind(address).map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        Ok(Self {
            root,
            access: Access::default(),
            listener,
            address,
            engine: None,
            cache_bytes: CACHE_BYTES,
            limits: Limits::default(),
            handle: Handle {
                stop: Arc::new(watch::Sender::new(false)),
                open: Arc::default(),
            },
        })
    }

    /// Decodes with `engine` instead of [`Engine::default`].
    #[must_use]
    pub fn with_engine(mut self, engine: &Engine) -> Self {
        self.engine = Some(engine.clone());
        self
    }

    /// Lets decoded tensors take that many bytes, those kept for the next
    /// request included; or as many as the largest tensor asked for, if that
    /// is more.
    #[must_use]
    pub fn with_cache(mut self, cache_bytes: u64) -> Self {
        self.cache_bytes = cache_bytes;
        self
    }

    /// Limits how long connections may take, and their number.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Answers requests that name the host `name`, besides addresses and
    /// `localhost`. Others are refused: a page can let its own name point to
    /// this machine.
    #[must_use]
    pub fn with_host(mut self, name: &str) -> Self {
        self.access.allow_host(name);
        self
    }

    /// Lets pages of `origin` (`https://example.org`, or `*` for all) read
    /// what is served, besides those on this machine.
    ///
    /// # Errors
    /// If `origin` is not one.
    pub fn with_origin(mut self, origin: &str) -> Result<Self> {
        if self.access.allow_origin(origin) {
            return Ok(self);
        }
        let detail = "is not an origin: it has to be like https://example.org, or * for all";
        Err(Error::Usage(format!("{origin} {detail}")))
    }

    /// Follows links that lead into `folder`.
    ///
    /// # Errors
    /// If there is no such folder.
    pub fn with_links_in(mut self, folder: &Path) -> Result<Self> {
        let linked = self.root.link(folder);
        linked.map_err(Error::file("follow links into", folder))?;
        Ok(self)
    }

    /// Address of the root, with a slash at its end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Returns what stops this server once it runs.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Answers until the process is told to stop (Ctrl-C), or the server is.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn run(self, log: impl Fn(Served) + Send + Sync + 'static) -> Result<()> {
        let fail = |error| Error::io("serve", error);
        let engine = self.engine.unwrap_or_default();
        let site = Arc::new(Site {
            root: Arc::new(self.root),
            access: self.access,
            unpacked: Arc::new(Unpacked::new(engine, self.cache_bytes)),
        });
        let log = Arc::new(log);
        let answer = move |request: axum::http::Request<_>| {
            let (site, log) = (Arc::clone(&site), Arc::clone(&log));
            async move {
                let (request, _) = request.into_parts();
                let (response, served) = site.answer(&request).await;
                log(served);
                response
            }
        };
        let connections = Connections::new(self.limits, Arc::clone(&self.handle.open));
        let stop = self.handle.stop.subscribe();
        tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(fail)?
            .block_on(async {
                tokio::spawn(async move {
                    if tokio::signal::ctrl_c().await.is_ok() {
                        self.handle.stop();
                    }
                });
                let listener = tokio::net::TcpListener::from_std(self.listener)?;
                connections.serve(listener, stop, answer).await;
                Ok(())
            })
            .map_err(fail)
    }
}
