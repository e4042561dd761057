//! The served folder as a site that answers requests.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::sync::Arc;

use axum::http::request::Parts;
use axum::http::{Method, Request, StatusCode};
use axum::response::Response;
use hyper::body::Incoming;

use super::access::{Access, Reader};
use super::answer::{self, METHODS, REQUEST_HEADERS, method_not_allowed, plain};
use super::listening::LoggedSite;
use super::path::{Found, MAX_PATH_BYTES, resolve};
use super::root::{Absent, Root};
use super::unpacked::{self, Unpacked};
use super::{Note, Served, file, listing};

/// The path of the viewer. A folder of that name takes precedence.
#[cfg(feature = "view")]
pub(super) const VIEWER: &str = "/_view/";

pub(super) struct Site {
    pub(super) root: Arc<Root>,
    #[cfg(feature = "view")]
    pub(super) viewer: Option<super::Page>,
    pub(super) access: Access,
    pub(super) unpacked: Arc<Unpacked>,
}

/// A response, the length of its body, and a note for the log.
type Answer = (Response, u64, Option<Note>);

impl LoggedSite for Site {
    async fn answer(&self, request: Request<Incoming>) -> (Response, Served) {
        let (request, _) = request.into_parts();
        let (reader, (mut response, body_bytes, note)) = match self.access.check_host(&request) {
            Ok(()) => {
                let reader = self.access.reader(&request.headers);
                let answer = self.answer_to(&reader, &request).await;
                (reader, answer)
            }
            Err((status, note)) => {
                let (response, len) = plain(status, &note.to_string());
                (Reader::Same, (response, len, Some(note)))
            }
        };
        answer::common(response.headers_mut(), &reader, self.access.varies());
        let status = response.status().as_u16();
        let note = note.or_else(|| foreign(&reader));
        let served = Served::new(&request, status, body_bytes, note);
        (response, served)
    }
}

impl Site {
    async fn answer_to(&self, reader: &Reader, request: &Parts) -> Answer {
        let (response, len) = match request.method {
            Method::OPTIONS => answer::options(reader, &request.headers, METHODS, REQUEST_HEADERS),
            Method::GET | Method::HEAD if request.uri.path().len() > MAX_PATH_BYTES => {
                let sentence = format!("a path may have at most {MAX_PATH_BYTES} bytes");
                plain(StatusCode::URI_TOO_LONG, &sentence)
            }
            Method::GET | Method::HEAD => match resolve(&self.root, request.uri.path()) {
                Err(Absent::Outside(real)) => return outside(&real),
                Err(Absent::Nothing) => {
                    let missing = || plain(StatusCode::NOT_FOUND, "no such file");
                    self.viewer(request).unwrap_or_else(missing)
                }
                Ok(found) => self.found(found, request).await,
            },
            _ => method_not_allowed(),
        };
        (response, len, None)
    }

    /// Answers a request for a file of the viewer, if there is such a file.
    #[cfg(feature = "view")]
    fn viewer(&self, request: &Parts) -> Option<(Response, u64)> {
        let path = request.uri.path().strip_prefix(VIEWER)?;
        self.viewer.as_ref()?.answer(path, request)
    }

    #[cfg(not(feature = "view"))]
    fn viewer(&self, _: &Parts) -> Option<(Response, u64)> {
        None
    }

    async fn found(&self, found: Found, request: &Parts) -> (Response, u64) {
        match found {
            Found::File(path) => {
                let sent = file::send(&path, request).await;
                sent.unwrap_or_else(unreadable)
            }
            Found::Folder(path) => {
                let (root, address) = (Arc::clone(&self.root), request.uri.path().to_owned());
                let page = move || listing::page(&root, &path, &address);
                let page = tokio::task::spawn_blocking(page).await;
                let page = page.map_err(io::Error::other).and_then(|page| page);
                page.map_or_else(unreadable, answer::page)
            }
            Found::Unpacked(path) => Arc::clone(&self.unpacked).send(path, request).await,
            Found::UnpackedIndex(path) => unpacked::send_index(path, request).await,
        }
    }
}

fn unreadable(_: impl Display) -> (Response, u64) {
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    plain(status, "the file cannot be read")
}

/// Refuses a link out of the folder. The log shows the target to the operator of the
/// server; the answer does not show it to the client.
fn outside(real: &Path) -> Answer {
    let (response, len) = plain(
        StatusCode::NOT_FOUND,
        "a link that leads out of the served folder, which this server does not follow",
    );
    let folder = match real.is_dir() {
        true => real,
        false => real.parent().unwrap_or(real),
    };
    let note = Note::LinkOutside {
        target: real.into(),
        folder: folder.into(),
    };
    (response, len, Some(note))
}

fn foreign(reader: &Reader) -> Option<Note> {
    match reader {
        Reader::Foreign(origin) => Some(Note::ForeignOrigin {
            origin: origin.to_string(),
        }),
        _ => None,
    }
}
