//! A model hub in which packed files appear as the safetensors files that they
//! restore, for clients that know nothing of packing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::manifest::Row;
use metrics::Metrics;
use packed_files::{Budget, PackedFiles};
use site::{MAX_LISTS, Site};
use trusted::{Entries, Secret};
use turns::Turns;
use upstream::Upstream;
use zstn::source::HttpOptions;
use zstn::{Engine, Error, Location, Result};
use zstn_serve::access::Access;
use zstn_serve::listening::Listening;
use zstn_serve::{CACHE_BYTES, Handle, Limits, MAX_TENSOR_BYTES, Served};

mod answer;
mod blocks;
mod checks;
mod files;
mod json_array;
mod listing;
mod metrics;
mod packed_files;
mod path_rules;
mod paths;
mod recent;
mod request;
mod site;
mod trusted;
mod turns;
mod upstream;

#[doc(hidden)]
pub use checks::check_request;

/// A gateway to a hub, or to a folder of repositories, that is listening but does
/// not answer yet.
///
/// Clients take it for a hub (`HF_ENDPOINT`). Where a repository has `X.zstn` and
/// no `X.safetensors`, they see the latter in its place, byte for byte as it was
/// packed, by ranges or whole, under the SHA-256 of its bytes.
///
/// Permissions of clients are those of the hub: every request is made with the
/// token that came with it, which is not kept. A folder can be read by everybody
/// who reaches the gateway.
///
/// ```no_run
/// # fn main() -> zstn::Result<()> {
/// use zstn::Location;
/// use zstn::gateway::Gateway;
/// use zstn::source::HttpOptions;
///
/// let upstream = Location::url("https://huggingface.co");
/// let address = ([127, 0, 0, 1], 8080).into();
/// let gateway = Gateway::bind(&upstream, address, &HttpOptions::default())?;
/// println!("export HF_ENDPOINT={}", gateway.url().trim_end_matches('/'));
/// gateway.run(|served| println!("{served}"))
/// # }
/// ```
pub struct Gateway {
    upstream: Upstream,
    access: Access,
    listening: Listening,
    engine: Option<Engine>,
    budget: Budget,
    trust: Duration,
}

impl Gateway {
    /// Listens at `address` (port 0: any free one). `upstream` is the http(s)
    /// address of a hub, or a folder, local or in an object store, with
    /// repositories in `OWNER/NAME`.
    ///
    /// `http` limits how long requests to the upstream take, and how often they are
    /// repeated; headers of its own are not sent.
    ///
    /// # Errors
    /// If there is no such folder, or the port is taken.
    pub fn bind(upstream: &Location, address: SocketAddr, http: &HttpOptions) -> Result<Self> {
        Self::to(Upstream::new(upstream, http)?, address)
    }

    /// Listens at `address` and shows the files of `rows` that are packed in `results`,
    /// a folder that `zstn worker` or the Python package has
    /// written to, local or in an object store. Everybody who reaches the gateway can
    /// read them.
    ///
    /// A file that is stored as a difference is restored whole when it is first read, and
    /// so is its base. Restored files take `restored_bytes` in the folder for temporary
    /// files, or as many as those that are in use.
    ///
    /// # Errors
    /// If there is no such folder, or the port is taken.
    pub fn bind_planned(
        results: &Location,
        rows: Vec<Row>,
        restored_bytes: u64,
        address: SocketAddr,
        http: &HttpOptions,
    ) -> Result<Self> {
        let upstream = Upstream::planned(results, rows, restored_bytes, http)?;
        Self::to(upstream, address)
    }

    fn to(upstream: Upstream, address: SocketAddr) -> Result<Self> {
        let mut listening = Listening::at(address)?.with_health("/healthz");
        listening.limits = Limits {
            connections: 4096,
            grace: Duration::from_secs(30),
            ..Limits::default()
        };
        Ok(Self {
            upstream,
            access: Access::default(),
            listening,
            engine: None,
            budget: Budget {
                cache_bytes: CACHE_BYTES,
                upstream_cache_bytes: CACHE_BYTES,
                max_tensor_bytes: MAX_TENSOR_BYTES,
            },
            trust: Duration::from_secs(10),
        })
    }

    /// Decodes with `engine` instead of [`Engine::default`].
    #[must_use]
    pub fn with_engine(mut self, engine: &Engine) -> Self {
        self.engine = Some(engine.clone());
        self
    }

    /// Lets decoded tensors take that many bytes, those kept for the next
    /// request included. A large tensor is decoded in parts. One that can only be
    /// decoded as a whole may take more, up to [`Gateway::with_max_tensor`], and is then
    /// not kept.
    #[must_use]
    pub fn with_cache(mut self, cache_bytes: u64) -> Self {
        self.budget.cache_bytes = cache_bytes;
        self
    }

    /// Refuses tensors that can only be decoded as a whole and are longer than that.
    #[must_use]
    pub fn with_max_tensor(mut self, max_tensor_bytes: u64) -> Self {
        self.budget.max_tensor_bytes = max_tensor_bytes;
        self
    }

    /// Keeps up to that many bytes of packed files in memory.
    #[must_use]
    pub fn with_upstream_cache(mut self, cache_bytes: u64) -> Self {
        self.budget.upstream_cache_bytes = cache_bytes;
        self
    }

    /// Asks the upstream again after this time whether a file is there and may be
    /// read with the permissions of the client. 10 seconds by default.
    #[must_use]
    pub fn with_trust(mut self, trust: Duration) -> Self {
        self.trust = trust;
        self
    }

    /// Limits how long connections may take, and their number.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.listening.limits = limits;
        self
    }

    /// Answers requests that name the host `name`, in addition to addresses and
    /// `localhost`.
    #[must_use]
    pub fn with_host(mut self, name: &str) -> Self {
        self.access.allow_host(name);
        self
    }

    /// Lets pages of `origin` (`https://example.org`, or `*` for all) read
    /// what is served, in addition to pages on this machine.
    ///
    /// # Errors
    /// If `origin` is not one.
    pub fn with_origin(mut self, origin: &str) -> Result<Self> {
        if self.access.allow_origin(origin) {
            return Ok(self);
        }
        Err(Error::Usage(Access::not_an_origin(origin)))
    }

    /// Returns the address of the gateway, with a slash at its end.
    #[must_use]
    pub fn url(&self) -> String {
        self.listening.url()
    }

    /// Returns what stops the gateway once it runs.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.listening.handle()
    }

    /// Answers requests until [`Handle::stop`] is called. `log` is called with every
    /// request whose answer begins. No signal handler is installed: a program that
    /// wants to end on Ctrl-C calls the handle itself.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn run(self, log: impl Fn(Served) + Send + Sync + 'static) -> Result<()> {
        let metrics = Arc::new(Metrics::default());
        let upstream = Arc::new(self.upstream);
        let secret = Arc::new(Secret::new()?);
        let entries = Arc::new(Entries::new(&secret, self.trust));
        let packed = PackedFiles::new(
            &upstream,
            self.engine.unwrap_or_default(),
            self.budget,
            (&secret, &entries),
            self.trust,
            &metrics,
        );
        let site = Site {
            upstream,
            access: self.access,
            entries,
            packed: Arc::new(packed),
            lists: Arc::new(Turns::new(MAX_LISTS, MAX_LISTS / 2)),
            metrics,
            handle: self.listening.handle(),
        };
        self.listening.run_site(site, log)
    }
}
