//! Answers with files as they are.

use std::fs::Metadata;
use std::io::{Result, SeekFrom};
use std::path::Path;
use std::time::SystemTime;

use axum::body::Body;
use axum::http::request::Parts;
use axum::response::Response;
use headers::{ContentType, ETag};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;

use super::answer::{About, begin};
use zstn::source::{FileSource, Source};

/// Returns the answer to a request for the file at `path`, and the length of its body.
pub(super) async fn send(path: &Path, request: &Parts) -> Result<(Response, u64)> {
    let mut file = File::open(path).await?;
    let version = Version::of(&file.metadata().await?);
    let about = About {
        len_bytes: version.len_bytes,
        tag: version.tag(""),
        modified: Some(version.modified),
        content_type: ContentType::from(mime_guess::from_path(path).first_or_octet_stream()),
    };
    let (mut response, body) = begin(&about, request);
    let Some(range) = body else {
        return Ok((response, 0));
    };
    let len = range.end - range.start;
    file.seek(SeekFrom::Start(range.start)).await?;
    let stream = ReaderStream::with_capacity(file.take(len), 256 << 10);
    *response.body_mut() = Body::from_stream(stream);
    Ok((response, len))
}

/// The version of a file, which changes when the file is modified or replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) len_bytes: u64,
    pub(super) modified: SystemTime,
}

impl Version {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            len_bytes: metadata.len(),
            modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
        }
    }

    /// Returns the version of an opened file.
    pub(super) fn of_source(source: &FileSource) -> Self {
        Self {
            len_bytes: source.len_bytes(),
            modified: source.modified().unwrap_or(SystemTime::UNIX_EPOCH),
        }
    }

    /// Returns an ETag made from length and modification time. That is sufficient for
    /// files that are replaced, as finished models are, rather than edited in place.
    /// `suffix`, of letters and digits, distinguishes derived content from the file
    /// itself.
    pub(super) fn tag(&self, suffix: &str) -> ETag {
        let nanos = self
            .modified
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos());
        format!("\"{:x}-{nanos:x}{suffix}\"", self.len_bytes)
            .parse()
            .expect("hex digits make an ETag")
    }
}
