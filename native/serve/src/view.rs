//! The viewer for local models, served to the browser on this machine.
//!
//! Other programs and users of the machine can connect to the port, and pages of any
//! website can send requests to it. Therefore all paths begin with a secret, no other
//! origin may read an answer, and requests for hosts other than IP addresses and
//! `localhost` are refused ([`Access`]).

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use axum::response::Response;
use hyper::body::Incoming;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use zstn_core::bytes::Cursor;
use zstn_core::catalog::FileKind;

use super::access::{Access, Reader};
use super::answer::{method_not_allowed, plain};
use super::listening::{Handle, Listening, LoggedSite};
use super::path::{Found, Root, resolve};
use super::{Note, Served, file};
use zstn::internals::Shards;
use zstn::source::HttpOptions;
use zstn::{Error, Location, Result};

/// Characters of paths that are not percent-encoded.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'/');

/// The policy of the viewer's files, equal to the one in its page
/// (`web-demo/vite.config.ts`), which does not apply to workers. Models can be on any
/// host.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; \
    worker-src 'self'; style-src 'self'; img-src 'self' data:; connect-src * blob:; \
    base-uri 'none'; form-action 'self'";

/// Headers of every answer. The referrer policy keeps the secret path from other
/// websites.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CACHE_CONTROL, "no-cache"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CONTENT_SECURITY_POLICY, "frame-ancestors 'none'"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// A server of the viewer. It has bound its port and answers requests once
/// [`View::run`] is called.
#[derive(Debug)]
pub struct View {
    listening: Listening,
    site: Site,
}

/// The viewer, the models that it shows, and the access rules.
#[derive(Debug)]
struct Site {
    /// The secret prefix of every path, with a slash at both ends.
    secret: String,
    page: Page,
    /// The query parameters of the viewer. They are not part of the printed link,
    /// because addresses may contain signatures.
    parameters: Vec<(&'static str, String)>,
    /// The folders of the models, all of whose files are served.
    roots: Vec<Arc<Root>>,
    access: Access,
}

impl View {
    /// Listens at `port` of this machine (0 picks a free port).
    ///
    /// # Errors
    /// If the port is taken, or the system provides no random bytes.
    pub fn bind(page: Page, port: u16) -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Ok(Self {
            listening: Listening::at(address)?,
            site: Site {
                secret: format!("/{}/", secret()?),
                page,
                parameters: Vec::new(),
                roots: Vec::new(),
                access: Access::default(),
            },
        })
    }

    /// Shows the model at `path`: a file, an index with all its shards, or a folder that
    /// contains one model. The second model added is compared with the first. All files
    /// of the model's folder are served, since a model can consist of several.
    ///
    /// # Errors
    /// If the file does not exist, or the folder does not contain exactly one model.
    pub fn model(self, path: &Path) -> Result<Self> {
        if !path.is_dir() {
            return self.file(path);
        }
        let http = HttpOptions::default();
        let found = Shards::open(&Location::from(path), FileKind::FILES, &http)?;
        let name = found.as_ref().and_then(|shards| match shards.index() {
            Some(index) => Some(&index.name),
            None => shards.files().first().map(|file| &file.name),
        });
        match name {
            Some(name) => self.file(&path.join(name)),
            None => Err(Error::Usage(format!(
                "{} contains no model",
                path.display()
            ))),
        }
    }

    fn file(self, path: &Path) -> Result<Self> {
        let shown = path.display();
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let real = path.canonicalize().map_err(Error::file("open", path))?;
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(name) = name.filter(|name| !name.starts_with('.') && real.is_file()) else {
            return Err(Error::Usage(format!(
                "{shown} cannot be shown: name a file whose name does not begin with a dot"
            )));
        };
        let mut root = Root::new(folder).map_err(Error::file("open", folder))?;
        if let (Err(_), Some(target)) = (root.follow(&root.folder().join(name)), real.parent()) {
            root.link(target).map_err(Error::file("open", target))?;
        }
        let number = self.site.roots.len();
        let address = format!("./models/{number}/{}", utf8_percent_encode(name, PLAIN));
        let mut view = self.address(address);
        view.site.roots.push(Arc::new(root));
        Ok(view)
    }

    /// Shows the model at a web address, which the browser fetches by itself.
    #[must_use]
    pub fn address(mut self, address: impl Into<String>) -> Self {
        let parameters = &mut self.site.parameters;
        let name = if parameters.is_empty() { "src" } else { "with" };
        parameters.push((name, address.into()));
        self
    }

    /// Returns the address of the viewer, which redirects the browser to the models.
    #[must_use]
    pub fn url(&self) -> String {
        let origin = self.listening.url();
        format!("{}{}", origin.trim_end_matches('/'), self.site.secret)
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
        self.listening.run_site(self.site, log)
    }
}

impl LoggedSite for Site {
    async fn answer(&self, request: Request<Incoming>) -> (Response, Served) {
        let (request, _) = request.into_parts();
        let (mut response, body_bytes, note) = self.respond(&request).await;
        for (name, value) in HEADERS {
            let headers = response.headers_mut();
            // A second policy for the page restricts the first one.
            headers.append(name, HeaderValue::from_static(value));
        }
        let status = response.status().as_u16();
        (response, Served::new(&request, status, body_bytes, note))
    }
}

impl Site {
    async fn respond(&self, request: &Parts) -> (Response, u64, Option<Note>) {
        if let Err((status, note)) = self.access.check_host(request) {
            let (response, len) = plain(status, &note.to_string());
            return (response, len, Some(note));
        }
        // Pages on other ports of this machine are of another origin as well.
        let is_of_other = match self.access.reader(&request.headers) {
            Reader::Same => false,
            Reader::Allowed(origin) => !is_own(request, &origin),
            Reader::Foreign(_) => true,
        };
        let (response, len) = if is_of_other {
            plain(
                StatusCode::FORBIDDEN,
                "pages of other origins may not read this",
            )
        } else if !matches!(request.method, Method::GET | Method::HEAD) {
            method_not_allowed()
        } else {
            match request.uri.path().strip_prefix(&self.secret) {
                Some("") if request.uri.query().is_none() && !self.parameters.is_empty() => {
                    self.models()
                }
                Some(path) => self.path(path, request).await,
                None => missing(),
            }
        };
        (response, len, None)
    }

    /// Redirects the browser to the viewer with its query parameters.
    fn models(&self) -> (Response, u64) {
        let parameters = self.parameters.iter().map(|(name, value)| {
            let value = utf8_percent_encode(value, PLAIN);
            format!("{name}={value}")
        });
        let target = format!("?{}", parameters.collect::<Vec<_>>().join("&"));
        let (mut response, len) = plain(StatusCode::FOUND, "the models are shown by the page");
        // The target is percent-encoded, so it is a valid header value.
        if let Ok(target) = HeaderValue::try_from(target) {
            response.headers_mut().insert(header::LOCATION, target);
        }
        (response, len)
    }

    /// Answers a request for a path below the secret prefix.
    async fn path(&self, path: &str, request: &Parts) -> (Response, u64) {
        let Some(model) = path.strip_prefix("models/") else {
            let answer = self.page.answer(path, request);
            return answer.unwrap_or_else(missing);
        };
        let (number, name) = model.split_once('/').unwrap_or((model, ""));
        let root = number.parse::<usize>().ok().and_then(|n| self.roots.get(n));
        let found = root.and_then(|root| resolve(root, &format!("/{name}")).ok());
        let Some(Found::File(path)) = found else {
            return missing();
        };
        match file::send(&path, request).await {
            Ok((mut response, len)) => {
                let ranges = HeaderValue::from_static("bytes");
                response.headers_mut().insert(header::ACCEPT_RANGES, ranges);
                (response, len)
            }
            Err(_) => missing(),
        }
    }
}

/// Returns whether an origin is the server itself.
fn is_own(request: &Parts, origin: &HeaderValue) -> bool {
    let host = request.headers.get(header::HOST);
    let own = host.map(|host| [b"http://", host.as_bytes()].concat());
    own.as_deref() == Some(origin.as_bytes())
}

fn missing() -> (Response, u64) {
    plain(StatusCode::NOT_FOUND, "no such file")
}

/// Returns 128 random bits from the operating system as hexadecimal digits.
fn secret() -> Result<String> {
    let bits = crate::random_bytes()?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bits)))
}

/// Returns the archive written by the build of the viewer (`web-demo/archive.ts`), if
/// this program contains it.
#[cfg(has_viewer)]
fn archive() -> Option<Bytes> {
    let embedded = include_bytes!(concat!(env!("OUT_DIR"), "/viewer.archive"));
    Some(Bytes::from_static(embedded))
}

/// Returns the archive written by the build of the viewer (`web-demo/archive.ts`), if
/// it exists. A debug build reads it from the source tree.
#[cfg(not(has_viewer))]
fn archive() -> Option<Bytes> {
    let path = option_env!("ZSTN_PAGE_ARCHIVE")?;
    Some(fs::read(path).ok()?.into())
}

/// Maximum depth of nested folders that are read.
const MAX_DEPTH: usize = 8;

/// A file of the viewer.
#[derive(Debug)]
struct PageFile {
    bytes: Bytes,
    is_gzip: bool,
}

/// The files of the viewer, by path.
#[derive(Debug)]
pub struct Page(BTreeMap<String, PageFile>);

impl Page {
    /// Returns the viewer that is embedded in this program.
    ///
    /// # Errors
    /// If the program was built without the viewer.
    pub fn included() -> Result<Self> {
        let Some(archive) = archive() else {
            return Err(Error::Usage(
                "this program was built without the viewer: build the page first (`npm run build \
                 --workspace zstn-web-demo`), or name the folder of a built page with --page"
                    .into(),
            ));
        };
        // The archive was written by this project's build, so damage is not expected.
        let files = read(&archive).map_err(|error| {
            let error = io::Error::new(io::ErrorKind::InvalidData, error);
            Error::io("read the viewer in this program", error)
        })?;
        Ok(Self(files))
    }

    /// Reads the files of a viewer from `folder`.
    ///
    /// # Errors
    /// If the folder cannot be read or has no `index.html`.
    pub fn in_folder(folder: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        collect(folder, "", MAX_DEPTH, &mut files).map_err(Error::file("read", folder))?;
        match files.contains_key("index.html") {
            true => Ok(Self(files)),
            false => Err(Error::Usage(format!(
                "{} contains no index.html: name the folder of a built viewer",
                folder.display()
            ))),
        }
    }

    /// Returns the answer to a request for the file at `path` and the length of its
    /// body, or `None` if there is no such file.
    pub fn answer(&self, path: &str, request: &Parts) -> Option<(Response, u64)> {
        let path = if path.is_empty() { "index.html" } else { path };
        let PageFile { bytes, is_gzip } = self.0.get(path)?;
        if *is_gzip && !takes_gzip(&request.headers) {
            let text = "the page is compressed with gzip, which the request excludes";
            return Some(plain(StatusCode::NOT_ACCEPTABLE, text));
        }
        let is_head = request.method == Method::HEAD;
        let body = if is_head { Bytes::new() } else { bytes.clone() };
        let len = body.len() as u64;
        let mut response = Response::new(Body::from(body));
        let headers = response.headers_mut();
        let kind = mime_guess::from_path(path).first_or_octet_stream();
        if let Ok(kind) = HeaderValue::try_from(kind.as_ref()) {
            headers.insert(header::CONTENT_TYPE, kind);
        }
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
        let policy = HeaderValue::from_static(PAGE_POLICY);
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
        if *is_gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        }
        Some((response, len))
    }
}

/// Returns whether the client accepts gzip. A request without `Accept-Encoding` accepts
/// it; quality values are ignored.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let Some(accepted) = headers.get(header::ACCEPT_ENCODING) else {
        return true;
    };
    let accepted = accepted.to_str().unwrap_or_default();
    let mut codings = accepted.split(',').map(str::trim);
    codings.any(|coding| matches!(coding.split(';').next(), Some("gzip" | "*")))
}

fn read(
    archive: &Bytes,
) -> Result<BTreeMap<String, PageFile>, Box<dyn std::error::Error + Send + Sync>> {
    let mut cursor = Cursor::new(archive);
    let len = cursor.u32("length of the list")?;
    let list: Vec<(String, u64)> = serde_json::from_slice(cursor.take(len.into(), "list")?)?;
    let mut files = BTreeMap::new();
    for (path, len_bytes) in list {
        let bytes = archive.slice_ref(cursor.take(len_bytes, "a file")?);
        let is_gzip = true;
        files.insert(path, PageFile { bytes, is_gzip });
    }
    Ok(files)
}

fn collect(
    folder: &Path,
    prefix: &str,
    depth: usize,
    files: &mut BTreeMap<String, PageFile>,
) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() && depth > 0 {
            collect(&entry.path(), &format!("{path}/"), depth - 1, files)?;
        } else if entry.file_type()?.is_file() {
            let bytes = fs::read(entry.path())?.into();
            let is_gzip = false;
            files.insert(path, PageFile { bytes, is_gzip });
        }
    }
    Ok(())
}
