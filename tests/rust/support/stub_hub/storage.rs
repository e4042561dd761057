//! The store of large files, which has a different origin from the hub.

use std::fs;
use std::io::SeekFrom;
use std::ops::Range;
use std::path::Path;

use axum::body::{Body, Bytes};
use axum::response::Response;
use hyper::body::Incoming;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;

use super::answer::{
    Answer, Refusal, bytes_response, empty_response, json_response, set, set_status,
};
use super::blobs::{append, hex, is_sha256};
use super::requests::{HubRequest, read_json};
use super::{Hub, text};

impl Hub {
    pub(super) async fn storage(
        &self,
        request: &HubRequest,
        place: &[&str],
        body: Incoming,
    ) -> Answer {
        match (request.method.as_str(), place) {
            (_, [sha256, ..]) if !is_sha256(sha256) => Err(Refusal::entry_not_found()),
            ("GET" | "HEAD", [sha256]) => self.download(request, sha256).await,
            ("PUT", [sha256]) => self.upload(sha256, body).await,
            ("POST", [sha256, "complete"]) => self.complete(sha256, body).await,
            ("PUT", [sha256, number]) => {
                let number = number.parse().map_err(|_| Refusal::entry_not_found())?;
                self.upload_part(sha256, number, body).await
            }
            _ => Err(Refusal::entry_not_found()),
        }
    }

    async fn download(&self, request: &HubRequest, sha256: &str) -> Answer {
        let path = self.large_file(sha256)?;
        let len_bytes = fs::metadata(&path).map_err(|_| Refusal::entry_not_found())?;
        let len_bytes = len_bytes.len();
        let mut response = match requested_range(request, len_bytes) {
            Ok(None) => file_response(&path, 0..len_bytes).await?,
            Ok(Some(range)) => {
                let mut response = file_response(&path, range.clone()).await?;
                set_partial(&mut response, &range, len_bytes);
                response
            }
            Err(Unsatisfiable) => unsatisfiable(len_bytes),
        };
        set(&mut response, "etag", &format!("\"{sha256}\""));
        set(&mut response, "accept-ranges", "bytes");
        set(&mut response, "content-type", "application/octet-stream");
        Ok(response)
    }

    async fn upload(&self, sha256: &str, body: Incoming) -> Answer {
        let mut file = self.blobs.temporary()?;
        let found = self.blobs.receive(&mut file, body).await?;
        if found != sha256 {
            let message = format!("the SHA-256 of the body is {found}, not {sha256}");
            return Err(Refusal::bad_request(message));
        }
        self.blobs.keep(file, sha256)?;
        let mut response = empty_response(200);
        set(&mut response, "etag", &format!("\"{sha256}\""));
        Ok(response)
    }

    async fn upload_part(&self, sha256: &str, number: u64, body: Incoming) -> Answer {
        let mut file = self.blobs.temporary()?;
        let found = self.blobs.receive(&mut file, body).await?;
        let persisted = file.persist(self.blobs.part(sha256, number));
        persisted.map_err(|error| Refusal::from(error.error))?;
        let mut response = empty_response(200);
        set(&mut response, "etag", &format!("\"{found}\""));
        Ok(response)
    }

    /// Assembles a file from the parts that the client lists.
    async fn complete(&self, sha256: &str, body: Incoming) -> Answer {
        let body = read_json(body).await?;
        let mut file = self.blobs.temporary()?;
        let mut whole = Sha256::new();
        let parts = body["parts"].as_array().into_iter().flatten();
        let mut paths = Vec::new();
        for (index, part) in parts.enumerate() {
            let number = index as u64 + 1;
            if part["partNumber"].as_u64() != Some(number) {
                return Err(Refusal::bad_request("the parts are not in order"));
            }
            let path = self.blobs.part(sha256, number);
            let mut digest = Sha256::new();
            append(&mut file, &path, [&mut digest, &mut whole])?;
            if text(part, "etag").trim_matches('"') != hex(&digest.finalize()) {
                return Err(Refusal::bad_request(format!(
                    "part {number} has another ETag"
                )));
            }
            paths.push(path);
        }
        if hex(&whole.finalize()) != sha256 {
            return Err(Refusal::bad_request("the parts are another file"));
        }
        self.blobs.keep(file, sha256)?;
        for path in paths {
            fs::remove_file(path)?;
        }
        Ok(json_response(&json!({})))
    }
}

/// Streams a range of a file. Its bytes are read while they are sent.
async fn file_response(path: &Path, range: Range<u64>) -> Answer {
    let mut file = tokio::fs::File::open(path).await?;
    file.seek(SeekFrom::Start(range.start)).await?;
    let len_bytes = range.end - range.start;
    let stream = ReaderStream::with_capacity(file.take(len_bytes), 64 << 10);
    let mut response = Response::new(Body::from_stream(stream));
    set(&mut response, "content-length", &len_bytes.to_string());
    Ok(response)
}

/// Returns the requested range of bytes in memory.
pub(super) fn memory_response(request: &HubRequest, bytes: &[u8]) -> Response {
    let len_bytes = bytes.len() as u64;
    let mut response = match requested_range(request, len_bytes) {
        Ok(None) => bytes_response(Bytes::copy_from_slice(bytes)),
        Ok(Some(range)) => {
            let start = usize::try_from(range.start).unwrap_or(usize::MAX);
            let end = usize::try_from(range.end).unwrap_or(usize::MAX);
            let body = bytes.get(start..end).unwrap_or_default();
            let mut response = bytes_response(Bytes::copy_from_slice(body));
            set_partial(&mut response, &range, len_bytes);
            response
        }
        Err(Unsatisfiable) => unsatisfiable(len_bytes),
    };
    set(&mut response, "accept-ranges", "bytes");
    response
}

fn set_partial(response: &mut Response, range: &Range<u64>, len_bytes: u64) {
    set_status(response, 206);
    let value = format!("bytes {}-{}/{len_bytes}", range.start, range.end - 1);
    set(response, "content-range", &value);
}

fn unsatisfiable(len_bytes: u64) -> Response {
    let mut response = empty_response(416);
    let value = format!("bytes */{len_bytes}");
    set(&mut response, "content-range", &value);
    response
}

/// Error for a range that begins after the end of the file.
struct Unsatisfiable;

/// Returns the requested range, clamped to the file; `None` for the whole file.
/// Requests for several ranges get the whole file.
fn requested_range(
    request: &HubRequest,
    len_bytes: u64,
) -> Result<Option<Range<u64>>, Unsatisfiable> {
    let range = request
        .header("range")
        .and_then(|range| range.strip_prefix("bytes="));
    let Some((first, last)) = range.and_then(|range| range.split_once('-')) else {
        return Ok(None);
    };
    let range = match (first.parse::<u64>().ok(), last.parse::<u64>().ok()) {
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(len_bytes),
        (Some(first), None) if last.is_empty() => first..len_bytes,
        (None, Some(last)) if first.is_empty() => len_bytes.saturating_sub(last)..len_bytes,
        _ => return Ok(None),
    };
    match range.is_empty() {
        true => Err(Unsatisfiable),
        false => Ok(Some(range)),
    }
}
