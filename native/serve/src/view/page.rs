//! The files of the viewer, embedded in the program or read from a folder.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use zstn_core::bytes::Cursor;

use crate::answer::plain;
use zstn::{Error, Result};

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
