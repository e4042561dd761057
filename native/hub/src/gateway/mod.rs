//! A model hub that shows packed files as the files they restore, for
//! clients that do not know the packed format.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::manifest::Row;
use answer_cache::{CacheKeys, EntryCache};
use metrics::Metrics;
use packed_files::{Budget, PackedFiles};
use site::{MAX_LISTS, Site};
use task_limit::TaskLimit;
use upstream::Upstream;
use zstn::source::HttpOptions;
use zstn::{Engine, Error, Location, Result};
use zstn_serve::access::Access;
use zstn_serve::listening::Listening;
use zstn_serve::{CACHE_BYTES, Handle, Limits, MAX_TENSOR_BYTES, Served};

mod answer_cache;
mod block_cache;
mod files;
mod invariants;
mod json_array;
mod listing;
mod metrics;
mod packed_files;
mod path_rules;
mod request;
mod site;
mod task_limit;
mod upstream;

#[doc(hidden)]
pub use invariants::check_request;

/// A gateway to a hub, or to a folder of repositories. It has bound its port and
/// answers requests once [`Gateway::run`] is called.
///
/// Clients use it like a hub (`HF_ENDPOINT`). Where a repository has `X.zstn` and no
/// `X.safetensors`, they see `X.safetensors` instead, byte for byte as it was packed,
/// and can read it whole or by ranges; likewise `model.gguf` in place of
/// `model.gguf.zstn`, and other formats. The ETag of a file of up to 8 MiB is its
/// SHA-256; a longer file has an opaque ETag, and lists show its SHA-256 once a client
/// has read it whole.
///
/// The hub decides which files a client may read: every request to the hub carries the
/// token of the client's request, and the gateway does not store tokens. A folder can
/// be read by every client that reaches the gateway.
///
/// ```no_run
/// # fn main() -> zstn::Result<()> {
/// use zstn::Location;
/// use zstn_hub::gateway::Gateway;
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
    /// Listens at `address` (port 0 picks a free port). `upstream` is the http(s)
    /// address of a hub, or a local or object-store folder that contains repositories
    /// as `OWNER/NAME`.
    ///
    /// `http` sets the timeouts and retries of requests to the upstream; its headers
    /// are not sent.
    ///
    /// # Errors
    /// If the folder does not exist or the port is taken.
    pub fn bind(upstream: &Location, address: SocketAddr, http: &HttpOptions) -> Result<Self> {
        Self::to(Upstream::new(upstream, http)?, address)
    }

    /// Listens at `address` and shows those files of `rows` that are packed in
    /// `results`, a local or object-store folder written by `zstn worker` or the Python
    /// package. Every client that reaches the gateway can read them.
    ///
    /// A file stored as a delta is restored whole on its first read, and so is its
    /// base. Restored files take up to `restored_bytes` in the folder for temporary
    /// files; files in use may exceed that limit.
    ///
    /// # Errors
    /// If the folder does not exist or the port is taken.
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

    /// Limits the memory for decoded tensors, cached ones included, to `cache_bytes`. A
    /// large tensor is decoded block by block. A tensor that can only be decoded as a
    /// whole may exceed the limit, up to [`Gateway::with_max_tensor`]; it is not cached
    /// then.
    #[must_use]
    pub fn with_cache(mut self, cache_bytes: u64) -> Self {
        self.budget.cache_bytes = cache_bytes;
        self
    }

    /// Refuses tensors that can only be decoded as a whole and are longer than
    /// `max_tensor_bytes`.
    #[must_use]
    pub fn with_max_tensor(mut self, max_tensor_bytes: u64) -> Self {
        self.budget.max_tensor_bytes = max_tensor_bytes;
        self
    }

    /// Caches up to `cache_bytes` bytes of packed files in memory.
    #[must_use]
    pub fn with_upstream_cache(mut self, cache_bytes: u64) -> Self {
        self.budget.upstream_cache_bytes = cache_bytes;
        self
    }

    /// Sets how long an answer of the upstream is trusted: after `trust`, the gateway
    /// checks again that a file exists and that the client may read it. The default is
    /// 10 seconds.
    #[must_use]
    pub fn with_trust(mut self, trust: Duration) -> Self {
        self.trust = trust;
        self
    }

    /// Limits the number of connections and how long they may take.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.listening.limits = limits;
        self
    }

    /// Accepts requests whose `Host` header is `name`, in addition to IP addresses and
    /// `localhost`.
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

    /// Returns the address of the gateway, with a trailing slash.
    #[must_use]
    pub fn url(&self) -> String {
        self.listening.url()
    }

    /// Returns a handle that stops the gateway while it runs.
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
        let metrics = Arc::new(Metrics::default());
        let upstream = Arc::new(self.upstream);
        let keys = Arc::new(CacheKeys::new()?);
        let entries = Arc::new(EntryCache::new(&keys, self.trust));
        let packed = PackedFiles::new(
            &upstream,
            self.engine.unwrap_or_default(),
            self.budget,
            (&keys, &entries),
            self.trust,
            &metrics,
        );
        let site = Site {
            upstream,
            access: self.access,
            entries,
            packed: Arc::new(packed),
            lists: Arc::new(TaskLimit::new(MAX_LISTS, MAX_LISTS / 2)),
            metrics,
            handle: self.listening.handle(),
        };
        self.listening.run_site(site, log)
    }
}
