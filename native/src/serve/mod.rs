//! Files over HTTP with what lazy readers need: ranges, CORS, ETag. Beside
//! every `NAME.zstn` there is a `NAME.safetensors`, decoded as it is asked for.
//! Meant for demos, tests and a look at a local model from a browser.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{Method, Request, StatusCode, header};
use axum::response::Response;

use crate::{Error, Native, Result};
use answer::{method_not_allowed, plain, preflight};
use path::{Found, resolve};
use unpacked::Unpacked;

mod answer;
mod file;
mod listing;
mod path;
mod range;
mod unpacked;

/// Decoded tensors that a server keeps unless it is told otherwise, in bytes.
pub const CACHE_BYTES: u64 = 256 << 20;

/// One request, after it was answered.
#[derive(Debug, Clone)]
pub struct Served {
    /// Method.
    pub method: String,
    /// Path as asked for.
    pub path: String,
    /// `Range` header, if any.
    pub range: Option<String>,
    /// Status of the answer.
    pub status: u16,
    /// Bytes of its body.
    pub body_bytes: u64,
}

/// A server that is listening but does not answer yet.
#[derive(Debug)]
pub struct Server {
    root: PathBuf,
    listener: std::net::TcpListener,
    address: SocketAddr,
    cache_bytes: u64,
}

type Log = Arc<dyn Fn(Served) + Send + Sync>;

impl Server {
    /// Listens at `address` (port 0: any free one) for files below `root`.
    pub fn bind(root: &Path, address: SocketAddr) -> Result<Self> {
        let fail = |error| Error::io(format!("serve {} at {address}", root.display()), error);
        let root = root.canonicalize().map_err(fail)?;
        if !root.is_dir() {
            return Err(Error::Usage(format!("{} is not a folder", root.display())));
        }
        let listener = std::net::TcpListener::bind(address).map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        Ok(Self {
            root,
            listener,
            address,
            cache_bytes: CACHE_BYTES,
        })
    }

    /// Keeps that many bytes of decoded tensors for the next request, but
    /// always the tensor used last.
    #[must_use]
    pub fn with_cache(mut self, cache_bytes: u64) -> Self {
        self.cache_bytes = cache_bytes;
        self
    }

    /// Address of the root, with a slash at its end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Answers until the process is told to stop (Ctrl-C).
    pub fn run(self, log: impl Fn(Served) + Send + Sync + 'static) -> Result<()> {
        let log: Log = Arc::new(log);
        let fail = |error| Error::io("serve", error);
        let engine = Native::new(0)?;
        let site = Arc::new(Site {
            root: self.root,
            unpacked: Arc::new(Unpacked::new(engine, self.cache_bytes)),
        });
        let app = Router::new()
            .fallback(answer_and_log)
            .with_state((site, log));
        tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(fail)?
            .block_on(async {
                let listener = tokio::net::TcpListener::from_std(self.listener)?;
                axum::serve(listener, app)
                    .with_graceful_shutdown(async {
                        let _ = tokio::signal::ctrl_c().await;
                    })
                    .await
            })
            .map_err(fail)
    }
}

async fn answer_and_log(
    State((site, log)): State<(Arc<Site>, Log)>,
    request: Request<Body>,
) -> Response {
    let (request, _) = request.into_parts();
    let (mut response, body_bytes) = site.answer(&request).await;
    answer::common(response.headers_mut());
    log(Served {
        method: request.method.to_string(),
        path: request.uri.path().into(),
        range: request
            .headers
            .get(header::RANGE)
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()),
        status: response.status().as_u16(),
        body_bytes,
    });
    response
}

/// What is served.
struct Site {
    root: PathBuf,
    unpacked: Arc<Unpacked>,
}

impl Site {
    async fn answer(&self, request: &Parts) -> (Response, u64) {
        match request.method {
            Method::OPTIONS => return preflight(),
            Method::GET | Method::HEAD => {}
            _ => return method_not_allowed(),
        }
        let address = request.uri.path();
        let unreadable = |_| {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            plain(status, "the file cannot be read")
        };
        match resolve(&self.root, address) {
            None => plain(StatusCode::NOT_FOUND, "no such file"),
            Some(Found::File(path)) => {
                let sent = file::send(&path, request).await;
                sent.unwrap_or_else(unreadable)
            }
            Some(Found::Folder(path)) => {
                let (address, unpacked) = (address.to_owned(), Arc::clone(&self.unpacked));
                let listed = tokio::task::spawn_blocking(move || {
                    listing::page(&path, &address, |packed| unpacked.can_open(packed))
                });
                let listed = listed.await.map_err(std::io::Error::other);
                let listed = listed.and_then(|page| page);
                listed.map_or_else(unreadable, answer::page)
            }
            Some(Found::Unpacked(path)) => Arc::clone(&self.unpacked).send(path, request).await,
            Some(Found::UnpackedIndex(path)) => unpacked::send_index(path, request).await,
        }
    }
}
