//! The served folder as a site that answers requests. A folder without an `index.html`
//! is answered with a generated page.

use std::fmt::{Display, Write};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use axum::http::request::Parts;
use axum::http::{Method, Request, StatusCode};
use axum::response::Response;
use hyper::body::Incoming;
use percent_encoding::utf8_percent_encode;
use zstn_core::container::zstn::MAGIC;

use super::access::{Access, Reader};
use super::answer::{self, METHODS, REQUEST_HEADERS, method_not_allowed, plain};
use super::listening::LoggedSite;
use super::path::{Absent, Found, MAX_PATH_BYTES, Root, resolve, restored_paths, restores_other};
use super::unpacked::{self, UnpackedFiles};
use super::{Note, Served, file};
use zstn::display::{escaped as printable, size};
use zstn::internals::{PLAIN, regular};

/// The path of the viewer. A folder of that name takes precedence.
#[cfg(feature = "view")]
pub(super) const VIEWER: &str = "/_view/";

pub(super) struct Site {
    pub(super) root: Arc<Root>,
    #[cfg(feature = "view")]
    pub(super) viewer: Option<super::Page>,
    pub(super) access: Access,
    pub(super) unpacked: Arc<UnpackedFiles>,
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
                let page = move || folder_page(&root, &path, &address);
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

/// Maximum number of lines on the page of a folder.
const MAX_LINES: usize = 10_000;

/// One line of the page of a folder.
struct Line {
    name: String,
    note: String,
    is_link: bool,
}

/// Returns the page of `folder`, which was requested as `address`. It lists files and
/// folders by name, without hidden ones, and the unpacked names of packed files.
fn folder_page(root: &Root, folder: &Path, address: &str) -> io::Result<String> {
    let mut lines = Vec::new();
    let mut entries = folder.read_dir()?;
    for entry in entries.by_ref() {
        if lines.len() >= MAX_LINES {
            break;
        }
        let name = entry?.file_name();
        if let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) {
            list(root, &folder.join(name), name, &mut lines);
        }
    }
    lines.sort_by(|a, b| a.name.cmp(&b.name));
    let title = escaped(address);
    // Exactly one leading slash, because `//` would begin a host name.
    let base = address.trim_matches('/');
    let base = if base.is_empty() {
        String::new()
    } else {
        format!("/{base}")
    };
    let base = escaped(&base);
    let mut html = format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n<h1>{title}</h1>\n<ul>\n"
    );
    for line in lines {
        let (name, note) = (escaped(&line.name), escaped(&line.note));
        let _ = if line.is_link {
            let link = utf8_percent_encode(&line.name, PLAIN);
            writeln!(html, "<li><a href=\"{base}/{link}\">{name}</a> {note}")
        } else {
            writeln!(html, "<li>{name} {note}")
        };
    }
    html.push_str("</ul>\n");
    if entries.next().is_some() {
        let _ = writeln!(
            html,
            "<p>There are more files than the {MAX_LINES} names above.</p>"
        );
    }
    Ok(html)
}

fn list(root: &Root, path: &Path, name: &str, lines: &mut Vec<Line>) {
    let mut line = |name: &str, note: String, is_link| {
        lines.push(Line {
            name: name.into(),
            note,
            is_link,
        });
    };
    let real = match root.follow(path) {
        Ok(real) => real,
        Err(Absent::Nothing) => return,
        Err(Absent::Outside(_)) => {
            line(
                name,
                "a link out of this folder, not followed".into(),
                false,
            );
            return;
        }
    };
    let Ok(metadata) = real.metadata() else {
        return;
    };
    if metadata.is_dir() {
        line(name, "folder".into(), true);
        return;
    }
    if !metadata.is_file() {
        return;
    }
    line(name, size(metadata.len()), true);
    let mut others = restored_paths(name).into_iter();
    if let Some(other) = others.find(|other| !restores_other(&real, other))
        && path.with_file_name(&other).symlink_metadata().is_err()
        && looks_unpackable(&real, name)
    {
        line(&other, format!("unpacked from {name}"), true);
    }
}

/// Returns whether a packed file or index can probably be served unpacked. Only the
/// first bytes are checked, because headers may be large and a folder may have
/// thousands of files.
fn looks_unpackable(path: &Path, name: &str) -> bool {
    if !name.ends_with(".zstn") {
        return true;
    }
    // Bytes 4 and 5 are the version and the layout. Layout 0 is a single frame, from
    // which no safetensors file can be served.
    let mut head = [0; 6];
    let read = regular::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head.starts_with(&MAGIC) && head[5] != 0
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in printable(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}
