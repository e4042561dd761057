//! Listening on a port, and stopping the server.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;
use tokio::sync::watch;

use super::Served;
use super::connections::Connections;
use super::limits::Limits;
use zstn::{Error, Result};

/// A bound port. Connections queue up until [`Listening::run`] answers them.
#[derive(Debug)]
pub struct Listening {
    listener: std::net::TcpListener,
    address: SocketAddr,
    pub limits: Limits,
    health: Option<&'static str>,
    handle: Handle,
}

/// A site that reports each answer for the log.
pub trait LoggedSite: Send + Sync + 'static {
    /// Returns the response to a request, and its description for the log.
    fn answer(&self, request: Request<Incoming>)
    -> impl Future<Output = (Response, Served)> + Send;
}

/// Stops a running server from another thread and counts its connections.
#[derive(Debug, Clone)]
pub struct Handle {
    stop: Arc<watch::Sender<bool>>,
    open: Arc<AtomicUsize>,
}

impl Handle {
    /// Makes the server return as soon as the answers in progress are complete, or
    /// after [`Limits::grace`].
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

impl Listening {
    /// Listens at `address` (port 0 picks a free port).
    ///
    /// # Errors
    /// If the port is taken or may not be used.
    pub fn at(address: SocketAddr) -> Result<Self> {
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
        Ok(Self {
            address: listener.local_addr().map_err(fail)?,
            listener,
            limits: Limits::default(),
            health: None,
            handle: Handle {
                stop: Arc::new(watch::Sender::new(false)),
                open: Arc::default(),
            },
        })
    }

    /// Answers requests for the path `health` even when all slots are taken. These
    /// answers have to be short.
    pub fn with_health(mut self, health: &'static str) -> Self {
        self.health = Some(health);
        self
    }

    /// Returns the address of the root, with a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Returns a handle that stops the server while it runs.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Answers requests with `site` and calls `log` with each answer; otherwise like
    /// [`Listening::run`].
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn run_site(
        self,
        site: impl LoggedSite,
        log: impl Fn(Served) + Send + Sync + 'static,
    ) -> Result<()> {
        let (site, log) = (Arc::new(site), Arc::new(log));
        self.run(move |request| {
            let (site, log) = (Arc::clone(&site), Arc::clone(&log));
            async move {
                let (response, served) = site.answer(request).await;
                log(served);
                response
            }
        })
    }

    /// Answers requests until the handle stops the server. No signal handler is
    /// installed.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn run<A, F>(self, answer: A) -> Result<()>
    where
        A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response> + Send + 'static,
    {
        let fail = |error| Error::io("serve", error);
        let connections = Connections::new(self.limits, self.health, Arc::clone(&self.handle.open));
        let stop = self.handle.stop.subscribe();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(fail)?;
        let served = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener)?;
            connections.serve(listener, stop, answer).await;
            Ok(())
        });
        // Does not wait for blocking work whose clients have disconnected.
        runtime.shutdown_background();
        served.map_err(fail)
    }
}
