//! Answers with files of a folder as they are.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::response::Response;
use futures_util::stream;
use headers::{ContentType, ETag};
use tokio::sync::Semaphore;

use super::folder::Folder;
use super::{Entry, Refusal};
use crate::gateway::request::Revision;
use zstn::source::Source;
use zstn_serve::file::{About, begin};

/// Number of bytes that are read at once.
const CHUNK_BYTES: u64 = 1 << 20;

impl Folder {
    /// Returns the answer to a request for a file that was looked up, and the length of
    /// its body.
    pub(in super::super) async fn send(
        self: &Arc<Self>,
        revision: &Revision,
        path: &str,
        entry: &Entry,
        request: &Parts,
    ) -> Result<(Response, u64), Refusal> {
        let about = About {
            len_bytes: entry.len_bytes,
            tag: tag(entry),
            modified: None,
            content_type: ContentType::from(mime_guess::from_path(path).first_or_octet_stream()),
        };
        let (mut response, body) = begin(&about, request);
        let Some(range) = body else {
            return Ok((response, 0));
        };
        let len = range.end - range.start;
        let (folder, revision, path) = (Arc::clone(self), revision.clone(), path.to_owned());
        let entry = entry.clone();
        let reads = Arc::clone(&self.reads);
        let turn = Arc::clone(&reads).acquire_owned().await;
        let open = move || {
            let _turn = turn;
            folder.open(&revision, &path, &entry)
        };
        let opened = tokio::task::spawn_blocking(open).await;
        let source: Arc<dyn Source> = match opened {
            Ok(opened) => opened?.into(),
            Err(error) => {
                return Err(zstn::Error::io("open a file", io::Error::other(error)).into());
            }
        };
        *response.body_mut() = body_of(source, range, reads);
        Ok((response, len))
    }
}

/// Returns the ETag of a file in a folder.
fn tag(entry: &Entry) -> ETag {
    let version = entry.identity.rsplit(' ').next().unwrap_or_default();
    let tag = format!("\"{version}\"").parse();
    tag.expect("letters and digits make an ETag")
}

fn body_of(source: Arc<dyn Source>, range: Range<u64>, reads: Arc<Semaphore>) -> Body {
    let state = (source, range, reads);
    let parts = stream::try_unfold(state, |(source, rest, reads)| async move {
        if rest.is_empty() {
            return Ok(None);
        }
        let turn = Arc::clone(&reads).acquire_owned().await;
        let part = rest.start..rest.end.min(rest.start + CHUNK_BYTES);
        let left = part.end..rest.end;
        let read = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let bytes = source
                .read(part)
                .map(|bytes| Bytes::from(bytes.into_owned()));
            bytes.map(|bytes| (bytes, source))
        });
        let (bytes, source) = read
            .await
            .map_err(io::Error::other)?
            .map_err(io::Error::other)?;
        Ok::<_, io::Error>(Some((bytes, (source, left, reads))))
    });
    Body::from_stream(parts)
}
