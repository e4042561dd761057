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
use zstn::AsyncSource;
use zstn_serve::file::{About, begin};

/// Number of bytes that are read at once.
const CHUNK_BYTES: u64 = 1 << 20;

impl Folder {
    /// Returns the answer to a request for a file that was looked up, and the length of
    /// its body.
    pub(in super::super) async fn send(
        &self,
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
        let turn = self.reads.acquire().await;
        let source = self.open(revision, path, entry).await?;
        drop(turn);
        *response.body_mut() = body_of(source, range, Arc::clone(&self.reads));
        Ok((response, len))
    }
}

/// Returns the ETag of a file in a folder.
fn tag(entry: &Entry) -> ETag {
    let version = entry.identity.rsplit(' ').next().unwrap_or_default();
    let tag = format!("\"{version}\"").parse();
    tag.expect("letters and digits make an ETag")
}

fn body_of(source: Arc<dyn AsyncSource>, range: Range<u64>, reads: Arc<Semaphore>) -> Body {
    let state = (source, range, reads);
    let parts = stream::try_unfold(state, |(source, rest, reads)| async move {
        if rest.is_empty() {
            return Ok(None);
        }
        let turn = reads.acquire().await;
        let part = rest.start..rest.end.min(rest.start + CHUNK_BYTES);
        let left = part.end..rest.end;
        let bytes = source.read(part).await.map_err(io::Error::other)?;
        drop(turn);
        Ok::<_, io::Error>(Some((Bytes::from(bytes), (source, left, reads))))
    });
    Body::from_stream(parts)
}
