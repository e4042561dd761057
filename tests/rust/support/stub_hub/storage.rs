//! The store of large files, which has a different origin from the hub and keeps files
//! named by their SHA-256, and the LFS API.

use std::fs::{self, File};
use std::io::{self, Read, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::TryStreamExt;
use hyper::body::Incoming;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tempfile::{NamedTempFile, TempDir};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;

use super::http::{
    Answer, HubRequest, Refusal, bytes_response, empty_response, json_response, read_json, set,
    set_status,
};
use super::repository::{RepoId, Visitor};
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

/// Size of the buffer for hashing files, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Blobs {
    folder: PathBuf,
    _temporary: Option<TempDir>,
}

impl Blobs {
    /// Uses `folder`, or creates a temporary one.
    pub(super) fn new(folder: Option<PathBuf>) -> io::Result<Self> {
        let temporary = match folder {
            Some(_) => None,
            None => Some(tempfile::Builder::new().prefix("stub-hub-").tempdir()?),
        };
        let folder = folder
            .or_else(|| temporary.as_ref().map(|t| t.path().to_owned()))
            .unwrap_or_default();
        fs::create_dir_all(folder.join("incoming"))?;
        Ok(Self {
            folder,
            _temporary: temporary,
        })
    }

    /// Removes all stored files.
    pub(super) fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.is_file() {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Returns the path of a file, whether the file exists or not.
    pub(super) fn path(&self, sha256: &str) -> PathBuf {
        self.folder.join(sha256)
    }

    /// Returns the length of a file; `None` if the file does not exist.
    pub(super) fn len_bytes(&self, sha256: &str) -> Option<u64> {
        fs::metadata(self.path(sha256)).ok().map(|data| data.len())
    }

    /// Creates a temporary file that [`Self::keep`] can move into place.
    pub(super) fn temporary(&self) -> io::Result<NamedTempFile> {
        NamedTempFile::new_in(self.folder.join("incoming"))
    }

    /// Stores bytes and returns their SHA-256.
    pub(super) fn add(&self, bytes: &[u8]) -> io::Result<String> {
        let sha256 = crate::sha256(bytes);
        let mut file = self.temporary()?;
        file.write_all(bytes)?;
        self.keep(file, &sha256)?;
        Ok(sha256)
    }

    /// Moves a complete file to the path for its SHA-256.
    pub(super) fn keep(&self, file: NamedTempFile, sha256: &str) -> io::Result<()> {
        file.persist(self.path(sha256))?;
        Ok(())
    }

    /// Writes a request's body to `file` and returns its SHA-256.
    pub(super) async fn receive(
        &self,
        file: &mut NamedTempFile,
        body: Incoming,
    ) -> io::Result<String> {
        let mut hasher = Sha256::new();
        let mut stream = Body::new(body).into_data_stream().map_err(io::Error::other);
        while let Some(bytes) = stream.try_next().await? {
            hasher.update(&bytes);
            file.write_all(&bytes)?;
        }
        Ok(hex(&hasher.finalize()))
    }

    /// Returns the path of an upload part, whether it exists or not.
    pub(super) fn part(&self, sha256: &str, number: u64) -> PathBuf {
        let name = format!("{sha256}.{number}");
        self.folder.join("incoming").join(name)
    }
}

/// Appends the contents of a file to another file and feeds them to the digests.
pub(super) fn append(
    to: &mut NamedTempFile,
    from: &Path,
    digests: [&mut Sha256; 2],
) -> io::Result<()> {
    let mut from = File::open(from)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let [first, second] = digests;
    loop {
        let len = from.read(&mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        first.update(&buffer[..len]);
        second.update(&buffer[..len]);
        to.write_all(&buffer[..len])?;
    }
}

/// Formats bytes in lowercase hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns whether `text` is a SHA-256 in lowercase hex, and therefore safe as a file
/// name.
pub(super) fn is_sha256(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

impl Hub {
    /// Answers where each object is to be uploaded or downloaded.
    pub(super) async fn lfs_batch(&self, visitor: Visitor, id: &RepoId, body: Incoming) -> Answer {
        let body = read_json(body).await?;
        {
            let repositories = self.repositories();
            let repository = visitor.may_see(repositories.get(id))?;
            match text(&body, "operation") {
                "upload" => visitor.may_write()?,
                "download" => visitor.may_read(repository)?,
                other => return Err(Refusal::bad_request(format!("no such operation: {other}"))),
            }
        }
        let transfers = body["transfers"].as_array();
        let knows_parts = transfers.is_some_and(|known| known.iter().any(|t| t == "multipart"));
        let part_bytes = self.options.part_bytes.filter(|_| knows_parts);
        let mut transfer = "basic";
        let objects = body["objects"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|object| {
                let oid = text(object, "oid");
                let len_bytes = object["size"].as_u64().unwrap_or_default();
                let mut answer = json!({ "oid": oid, "size": len_bytes });
                if !is_sha256(oid) {
                    answer["error"] = json!({ "code": 422, "message": "the oid is not a SHA-256" });
                    return answer;
                }
                let known = self.len_of_large(oid);
                match (text(&body, "operation"), known) {
                    ("download", Some(_)) => {
                        let href = self.storage_address(oid);
                        answer["actions"] = json!({ "download": { "href": href } });
                    }
                    ("download", None) => {
                        answer["error"] = json!({ "code": 404, "message": "no such object" });
                    }
                    // An object without actions does not need to be uploaded.
                    (_, Some(known)) if known == len_bytes => {}
                    _ => {
                        let parts = part_bytes.filter(|part_bytes| len_bytes > *part_bytes);
                        let upload = match parts {
                            Some(part_bytes) => {
                                transfer = "multipart";
                                self.parts(oid, len_bytes, part_bytes)
                            }
                            None => json!({ "href": self.storage_address(oid) }),
                        };
                        let verify =
                            format!("{}/{}.git/info/lfs/objects/verify", self.url, id.path());
                        answer["authenticated"] = true.into();
                        answer["actions"] =
                            json!({ "upload": upload, "verify": { "href": verify } });
                    }
                }
                answer
            });
        let objects: Value = objects.collect();
        Ok(lfs_response(&json!({
            "transfer": transfer,
            "objects": objects,
            "hash_algo": "sha256",
        })))
    }

    /// Returns the URLs of all parts and the URL that completes the upload.
    fn parts(&self, oid: &str, len_bytes: u64, part_bytes: u64) -> Value {
        let mut header = Map::new();
        header.insert("chunk_size".into(), part_bytes.to_string().into());
        for number in 1..=len_bytes.div_ceil(part_bytes) {
            let url = format!("{}/cdn/{oid}/{number}?signature=stub", self.storage_url);
            // Clients sort the part numbers as strings, so all have the same number of
            // digits.
            header.insert(format!("{number:05}"), url.into());
        }
        let href = format!("{}/cdn/{oid}/complete?signature=stub", self.storage_url);
        json!({ "href": href, "header": header })
    }

    /// Checks that an uploaded object has arrived.
    pub(super) async fn lfs_verify(&self, visitor: Visitor, body: Incoming) -> Answer {
        let body = read_json(body).await?;
        visitor.may_write()?;
        let oid = text(&body, "oid");
        let known = self.len_of_large(oid);
        if known.is_none() || known != body["size"].as_u64() {
            let message = format!("{oid} has not arrived complete");
            return Err(Refusal::new(404, "", message));
        }
        Ok(lfs_response(&json!({})))
    }

    /// Returns the URL of a large file.
    pub(super) fn storage_address(&self, sha256: &str) -> String {
        format!("{}/cdn/{sha256}?signature=stub", self.storage_url)
    }
}

fn lfs_response(value: &Value) -> Response {
    let mut response = json_response(value);
    set(
        &mut response,
        "content-type",
        "application/vnd.git-lfs+json",
    );
    response
}
