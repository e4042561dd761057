//! An HTTP file server with the features that lazy readers need: ranges, CORS and
//! ETags. Every `NAME.zstn` also appears as `NAME.safetensors`, which is decoded on
//! request. It is meant for demos, for tests and for viewing a local model in a
//! browser.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use access::Access;
use listening::Listening;
use path::Root;
use site::Site;
use unpacked::{DecodedTensors, Patience, UnpackedFiles};
use zstn::{Engine, Error, Result};

#[doc(hidden)]
pub mod access;
#[doc(hidden)]
pub mod answer;
#[doc(hidden)]
pub mod connections;
#[doc(hidden)]
pub mod file;
mod limits;
#[doc(hidden)]
pub mod listening;
#[doc(hidden)]
pub mod path;
mod request_log;
mod site;
#[doc(hidden)]
pub mod unpacked;
#[cfg(feature = "view")]
mod view;

pub use limits::Limits;
#[doc(hidden)]
pub use limits::group;
pub use listening::Handle;
pub use request_log::{Note, Served};
#[cfg(feature = "view")]
pub use view::{Page, View};

/// Returns random bytes from the operating system, for secrets.
///
/// # Errors
/// If the system provides none.
#[doc(hidden)]
pub fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::io("read random bytes", std::io::Error::other(error)))?;
    Ok(bytes)
}

/// Default limit for the memory of decoded tensors, in bytes.
pub const CACHE_BYTES: u64 = 256 << 20;

/// Default length of the longest tensor that a server decodes as a whole, in bytes.
/// Longer tensors are served only if they can be decoded block by block, as ordinary
/// weights can.
pub const MAX_TENSOR_BYTES: u64 = 512 << 20;

/// A file server. It has bound its port and answers requests once [`Server::run`] is
/// called.
#[derive(Debug)]
pub struct Server {
    root: Root,
    access: Access,
    listening: Listening,
    engine: Option<Engine>,
    cache_bytes: u64,
    max_tensor_bytes: u64,
    #[cfg(feature = "view")]
    viewer: Option<Page>,
}

impl Server {
    /// Listens at `address` (port 0 picks a free port) and serves the files below
    /// `root`.
    ///
    /// Hidden files are not served. Links are followed only where they stay in the
    /// folder, or lead from a snapshot in a model hub's cache to the cache's blobs.
    ///
    /// # Errors
    /// If the folder does not exist or the port is taken.
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
        Ok(Self {
            root,
            access: Access::default(),
            listening: Listening::at(address)?,
            engine: None,
            cache_bytes: CACHE_BYTES,
            max_tensor_bytes: MAX_TENSOR_BYTES,
            #[cfg(feature = "view")]
            viewer: None,
        })
    }

    /// Also serves the viewer, at [`Server::viewer_url`].
    #[cfg(feature = "view")]
    #[must_use]
    pub fn with_viewer(mut self, page: Page) -> Self {
        self.viewer = Some(page);
        self
    }

    /// Returns the address of the viewer, if it is served. With `?src=../NAME`
    /// appended, the viewer opens the file `NAME`.
    #[cfg(feature = "view")]
    #[must_use]
    pub fn viewer_url(&self) -> Option<String> {
        let origin = self.url();
        let path = site::VIEWER.trim_start_matches('/');
        self.viewer.as_ref().map(|_| format!("{origin}{path}"))
    }

    /// Decodes with `engine` instead of [`Engine::default`].
    #[must_use]
    pub fn with_engine(mut self, engine: &Engine) -> Self {
        self.engine = Some(engine.clone());
        self
    }

    /// Limits the memory for decoded tensors, cached ones included, to `cache_bytes`. A
    /// large tensor is decoded block by block. A tensor that can only be decoded as a
    /// whole may exceed the limit, up to [`Server::with_max_tensor`]; it is not cached
    /// then.
    #[must_use]
    pub fn with_cache(mut self, cache_bytes: u64) -> Self {
        self.cache_bytes = cache_bytes;
        self
    }

    /// Refuses tensors that can only be decoded as a whole and are longer than
    /// `max_tensor_bytes`.
    #[must_use]
    pub fn with_max_tensor(mut self, max_tensor_bytes: u64) -> Self {
        self.max_tensor_bytes = max_tensor_bytes;
        self
    }

    /// Limits the number of connections and how long they may take.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.listening.limits = limits;
        self
    }

    /// Accepts requests whose `Host` header is `name`, in addition to IP addresses and
    /// `localhost`. Other hosts are refused, because any website can let its own name
    /// resolve to this machine.
    #[must_use]
    pub fn with_host(mut self, name: &str) -> Self {
        self.access.allow_host(name);
        self
    }

    /// Allows pages of `origin` (`https://example.org`, or `*` for all) to read the
    /// served files, in addition to pages on this machine.
    ///
    /// # Errors
    /// If `origin` is not a valid origin.
    pub fn with_origin(mut self, origin: &str) -> Result<Self> {
        if self.access.allow_origin(origin) {
            return Ok(self);
        }
        Err(Error::Usage(Access::not_an_origin(origin)))
    }

    /// Follows links that lead into `folder`.
    ///
    /// # Errors
    /// If the folder does not exist.
    pub fn with_links_in(mut self, folder: &Path) -> Result<Self> {
        let linked = self.root.link(folder);
        linked.map_err(Error::file("follow links into", folder))?;
        Ok(self)
    }

    /// Returns the address of the root, with a trailing slash.
    #[must_use]
    pub fn url(&self) -> String {
        self.listening.url()
    }

    /// Returns a handle that stops the server while it runs.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.listening.handle()
    }

    /// Answers requests until [`Handle::stop`] is called. `log` is called for every
    /// request when its answer begins. No signal handler is installed: a program that
    /// should end on Ctrl-C calls the handle itself.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn run(self, log: impl Fn(Served) + Send + Sync + 'static) -> Result<()> {
        let engine = self.engine.unwrap_or_default();
        let decoded = DecodedTensors::new(self.cache_bytes, Patience::default());
        let decoded = decoded.with_max_tensor(self.max_tensor_bytes);
        let site = Site {
            root: Arc::new(self.root),
            access: self.access,
            #[cfg(feature = "view")]
            viewer: self.viewer,
            unpacked: Arc::new(UnpackedFiles::new(engine, decoded)),
        };
        self.listening.run_site(site, log)
    }
}
