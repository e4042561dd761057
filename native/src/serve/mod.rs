//! Static files over HTTP with what lazy readers need: ranges, CORS, ETag.
//! Meant for demos, tests and a look at a local model from a browser.

use std::net::SocketAddr;
use std::ops::Bound;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use axum::response::Response;
use headers::{ETag, HeaderMapExt, IfNoneMatch, IfRange, LastModified, Range};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;

use crate::{Error, Result};

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
        })
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
        let root = Arc::new(self.root);
        let app = Router::new()
            .fallback(answer_and_log)
            .with_state((root, log));
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
    State((root, log)): State<(Arc<PathBuf>, Log)>,
    request: Request<Body>,
) -> Response {
    let (request, _) = request.into_parts();
    let (mut response, body_bytes) = answer(&root, &request).await;
    let headers = response.headers_mut();
    let set = |headers: &mut HeaderMap, name, value| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    set(headers, header::ACCEPT_RANGES, "bytes");
    set(headers, header::CACHE_CONTROL, "no-cache");
    set(headers, header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    set(
        headers,
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        "accept-ranges, content-length, content-range, etag, last-modified",
    );
    set(headers, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
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

fn plain(status: StatusCode, text: &str) -> (Response, u64) {
    let mut response = Response::new(Body::from(format!("{text}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    (response, text.len() as u64 + 1)
}

fn empty(status: StatusCode) -> (Response, u64) {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    (response, 0)
}

async fn answer(root: &Path, request: &Parts) -> (Response, u64) {
    match request.method {
        Method::OPTIONS => return preflight(),
        Method::GET | Method::HEAD => {}
        _ => return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD"),
    }
    let Some(path) = resolve(root, request.uri.path()) else {
        return plain(StatusCode::NOT_FOUND, "no such file");
    };
    match send(&path, request).await {
        Ok(answer) => answer,
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the file cannot be read"),
    }
}

fn preflight() -> (Response, u64) {
    let (mut response, len) = empty(StatusCode::NO_CONTENT);
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD"),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "authorization, range, if-range, if-none-match",
        ),
        (header::ACCESS_CONTROL_MAX_AGE, "86400"),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    (response, len)
}

/// The file a path means; nothing outside `root`, not even by a link.
fn resolve(root: &Path, path: &str) -> Option<PathBuf> {
    let decoded = percent_decode(path)?;
    let relative = Path::new(decoded.trim_start_matches('/'));
    if !relative
        .components()
        .all(|part| matches!(part, Component::Normal(_)))
    {
        return None;
    }
    let mut full = root.join(relative);
    if full.is_dir() {
        full.push("index.html");
    }
    let full = full.canonicalize().ok()?;
    (full.starts_with(root) && full.is_file()).then_some(full)
}

fn percent_decode(path: &str) -> Option<String> {
    let mut bytes = path.bytes();
    let mut decoded = Vec::with_capacity(path.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(decoded).ok()
}

async fn send(path: &Path, request: &Parts) -> std::io::Result<(Response, u64)> {
    let mut file = File::open(path).await?;
    let meta = file.metadata().await?;
    let len = meta.len();
    let modified = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    let tag = tag(len, modified);
    let asked = &request.headers;

    if asked
        .typed_get::<IfNoneMatch>()
        .is_some_and(|header| !header.precondition_passes(&tag))
    {
        return Ok(empty(StatusCode::NOT_MODIFIED));
    }
    let unchanged = asked
        .typed_get::<IfRange>()
        .is_none_or(|header| !header.is_modified(Some(&tag), Some(&LastModified::from(modified))));
    let range = asked.typed_get::<Range>().filter(|_| unchanged);
    let mut response = Response::new(Body::empty());
    let (start, end) = match range.map(|range| part(&range, len)) {
        None | Some(Wanted::Whole) => (0, len),
        Some(Wanted::None) => {
            let (mut response, sent) = empty(StatusCode::RANGE_NOT_SATISFIABLE);
            let all = HeaderValue::try_from(format!("bytes */{len}"));
            response
                .headers_mut()
                .extend(all.map(|v| (header::CONTENT_RANGE, v)));
            return Ok((response, sent));
        }
        Some(Wanted::Some(start, end)) => {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            let part = HeaderValue::try_from(format!("bytes {start}-{}/{len}", end - 1));
            response
                .headers_mut()
                .extend(part.map(|v| (header::CONTENT_RANGE, v)));
            (start, end)
        }
    };
    let mime = mime_guess::from_path(path).first_or_octet_stream();
    let headers = response.headers_mut();
    headers.typed_insert(headers::ContentType::from(mime));
    headers.typed_insert(headers::ContentLength(end - start));
    headers.typed_insert(LastModified::from(modified));
    headers.typed_insert(tag);
    if request.method == Method::HEAD {
        return Ok((response, 0));
    }
    file.seek(std::io::SeekFrom::Start(start)).await?;
    let body = ReaderStream::with_capacity(file.take(end - start), 256 << 10);
    *response.body_mut() = Body::from_stream(body);
    Ok((response, end - start))
}

enum Wanted {
    Whole,
    None,
    Some(u64, u64),
}

/// The part of `len` bytes asked for. Several ranges at once are answered
/// with the whole file, as any server may.
fn part(range: &Range, len: u64) -> Wanted {
    let mut ranges = range.satisfiable_ranges(len);
    match (ranges.next(), ranges.next()) {
        (Some((from, to)), None) => {
            let start = match from {
                Bound::Included(start) => start,
                Bound::Excluded(before) => before + 1,
                Bound::Unbounded => 0,
            };
            let end = match to {
                Bound::Included(last) => last.saturating_add(1).min(len),
                Bound::Excluded(end) => end.min(len),
                Bound::Unbounded => len,
            };
            if start < end {
                Wanted::Some(start, end)
            } else {
                Wanted::None
            }
        }
        (None, _) => Wanted::None,
        _ => Wanted::Whole,
    }
}

/// Length and time of change: strong enough for files that are replaced, as
/// finished models are, not edited in place.
fn tag(len: u64, modified: SystemTime) -> ETag {
    let nanos = modified
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos());
    format!("\"{len:x}-{nanos:x}\"")
        .parse()
        .expect("hex digits make an ETag")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_the_root_is_served() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::write(root.join("a b.bin"), b"x").unwrap();
        assert!(resolve(&root, "/a%20b.bin").is_some());
        for path in [
            "/../etc/passwd",
            "/%2e%2e/etc/passwd",
            "/a/../../etc/passwd",
            "//etc/passwd",
            "/%zz",
            "/missing",
        ] {
            assert!(resolve(&root, path).is_none(), "{path}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("/etc/passwd", root.join("link")).unwrap();
            assert!(resolve(&root, "/link").is_none());
        }
    }
}
