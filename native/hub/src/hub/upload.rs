//! Uploads of large files with the git-lfs protocol.

use std::path::Path;
use std::time::Duration;

use http::{Method, Request, Uri, header};
use serde_json::{Map, Value, json};
use zstn_net::upload::upload;

use super::client::{ANSWER_TIMEOUT, problem, refused, stalled};
use super::{Hub, Refusal, Repository};
use zstn::Result;
use zstn::internals::{Failure, wait};
use zstn::source::{FileSource, Source};

const LFS: &str = "application/vnd.git-lfs+json";

impl Hub {
    /// Returns whether the hub already has the object with this SHA-256 and length.
    ///
    /// # Errors
    /// [`Refusal`] and network errors.
    pub fn has_object(
        &self,
        repository: &Repository,
        sha256: &str,
        len_bytes: u64,
    ) -> Result<bool> {
        let (object, _) = self.batch(repository, sha256, len_bytes)?;
        Ok(object["actions"]["upload"].is_null())
    }

    /// Uploads the file at `path`, which must have this SHA-256 and length, unless the
    /// hub already has it. Returns whether bytes were sent. The file becomes visible
    /// once a commit names it.
    ///
    /// # Errors
    /// [`Refusal`], network errors, and errors of reading the file.
    pub fn upload(
        &self,
        repository: &Repository,
        path: &Path,
        sha256: &str,
        len_bytes: u64,
    ) -> Result<bool> {
        let (object, transfer) = self.batch(repository, sha256, len_bytes)?;
        let action = &object["actions"]["upload"];
        if action.is_null() {
            return Ok(false);
        }
        let upload = FileUpload {
            hub: self,
            path,
            len_bytes,
        };
        match &*transfer {
            "multipart" => upload.parts(action, sha256)?,
            _ => upload.whole(action)?,
        }
        let verify = &object["actions"]["verify"];
        if !verify.is_null() {
            let body = json!({ "oid": sha256, "size": len_bytes });
            self.act("POST", verify, &body)?;
        }
        Ok(true)
    }

    /// Requests the upload actions for an object. Returns its description and the
    /// transfer type.
    fn batch(
        &self,
        repository: &Repository,
        sha256: &str,
        len_bytes: u64,
    ) -> Result<(Value, String)> {
        let body = json!({
            "operation": "upload",
            "transfers": ["basic", "multipart"],
            "objects": [{ "oid": sha256, "size": len_bytes }],
            "hash_algo": "sha256",
        });
        let path = format!("{}/info/lfs/objects/batch", repository.git());
        let body = body.to_string();
        let (answer, _) = self.call(repository, "POST", &path, Some((LFS, body.as_bytes())))?;
        let object = answer["objects"][0].clone();
        if object["oid"] != sha256 {
            let detail = "the hub does not name an action for the file".into();
            return Err(problem(&format!("{}{path}", self.endpoint()), detail, None));
        }
        if let Some(error) = object["error"].as_object() {
            let said = error.get("message").and_then(Value::as_str);
            return Err(Refusal::Object {
                repository: repository.to_string(),
                oid: sha256.into(),
                said: said.unwrap_or("it gives no reason").into(),
            }
            .into());
        }
        let transfer = answer["transfer"].as_str().unwrap_or("basic");
        Ok((object, transfer.into()))
    }

    /// Sends JSON to the address of an action. The token is sent to the hub itself;
    /// another server receives only the headers of the action.
    fn act(&self, method: &str, action: &Value, body: &Value) -> Result<()> {
        let url = address(action)?;
        let body = body.to_string();
        self.retrying(|| {
            let mut request = Request::builder().method(method).uri(&url);
            request = request.header(header::CONTENT_TYPE, LFS);
            let headers = action["header"].as_object();
            let has_own = headers.is_some_and(|headers| {
                headers
                    .keys()
                    .any(|name| name.eq_ignore_ascii_case("authorization"))
            });
            if self.is_own(&url) && !has_own {
                request = self.authorised(request);
            }
            for (name, value) in given_headers(headers) {
                request = request.header(name, value);
            }
            let body = body.clone().into();
            let answer = wait(self.send(&url, request, body, ANSWER_TIMEOUT))?;
            match answer.status().is_success() {
                true => Ok(()),
                false => Err(refused(&url, answer.status(), answer.headers())),
            }
        })
    }
}

struct FileUpload<'a> {
    hub: &'a Hub,
    path: &'a Path,
    len_bytes: u64,
}

impl FileUpload<'_> {
    /// Sends the file in one request.
    fn whole(&self, action: &Value) -> Result<()> {
        let url = address(action)?;
        self.put(&url, action["header"].as_object(), 0, self.len_bytes)?;
        Ok(())
    }

    /// Sends the file in parts and completes the upload.
    fn parts(&self, action: &Value, sha256: &str) -> Result<()> {
        let completion = address(action)?;
        let wrong = |detail: &str| problem(&completion, detail.into(), None);
        let headers = action["header"].as_object();
        let headers = headers.ok_or_else(|| wrong("the hub names no parts"))?;
        let part_bytes = match &headers.get("chunk_size") {
            Some(Value::String(text)) => text.parse().ok(),
            Some(value) => value.as_u64(),
            None => None,
        };
        let part_bytes = part_bytes.filter(|bytes: &u64| *bytes > 0);
        let part_bytes =
            part_bytes.ok_or_else(|| wrong("the hub does not state the length of the parts"))?;
        let mut urls: Vec<(u64, &str)> = headers
            .iter()
            .filter_map(|(name, url)| Some((name.parse().ok()?, url.as_str()?)))
            .collect();
        urls.sort_unstable();
        let count = self.len_bytes.div_ceil(part_bytes);
        if urls.len() as u64 != count || urls.iter().zip(1..).any(|((number, _), n)| *number != n) {
            return Err(wrong("the parts that the hub names do not match the file"));
        }
        let mut parts = Vec::new();
        for (number, url) in urls {
            let start = (number - 1) * part_bytes;
            let len_bytes = part_bytes.min(self.len_bytes - start);
            let tag = self.put(url, None, start, len_bytes)?;
            let tag = tag.ok_or_else(|| problem(url, "the server gives no ETag".into(), None))?;
            parts.push(json!({ "partNumber": number, "etag": tag }));
        }
        let completion = json!({ "href": completion });
        self.hub.act(
            "POST",
            &completion,
            &json!({ "oid": sha256, "parts": parts }),
        )
    }

    /// Sends `len_bytes` of the file from `start`. Returns the ETag of the answer.
    fn put(
        &self,
        url: &str,
        headers: Option<&Map<String, Value>>,
        start: u64,
        len_bytes: u64,
    ) -> Result<Option<String>> {
        self.hub.retrying(|| {
            let file = FileSource::open(self.path)?;
            let mut request = Request::builder()
                .method(Method::PUT)
                .uri(url)
                .header(header::CONTENT_LENGTH, len_bytes);
            for (name, value) in given_headers(headers) {
                request = request.header(name, value);
            }
            // The time limit applies to each chunk of the file, not to the whole request.
            let send = |body| self.hub.send(url, request, body, Duration::MAX);
            let read = |range: std::ops::Range<u64>| {
                let bytes = file.read(start + range.start..start + range.end);
                Ok(bytes?.into_owned())
            };
            let sent = wait(upload(len_bytes, false, ANSWER_TIMEOUT, send, read));
            let answer = sent?.ok_or_else(|| Failure::passing(stalled(url)))?;
            if !answer.status().is_success() {
                return Err(refused(url, answer.status(), answer.headers()));
            }
            file.check_unchanged()?;
            let tag = answer.headers().get(header::ETAG);
            Ok::<_, Failure>(tag.and_then(|tag| Some(tag.to_str().ok()?.to_owned())))
        })
    }
}

/// Returns the http(s) address of an action.
fn address(action: &Value) -> Result<String> {
    let url = action["href"].as_str().unwrap_or_default();
    let uri: Option<Uri> = url.parse().ok();
    match uri.as_ref().and_then(Uri::scheme_str) {
        Some("http" | "https") => Ok(url.into()),
        _ => Err(problem(
            url,
            "the hub gives no address to upload to".into(),
            None,
        )),
    }
}

/// Returns the headers that the hub specifies for an address, without those that frame
/// a request.
fn given_headers(headers: Option<&Map<String, Value>>) -> impl Iterator<Item = (&str, &str)> {
    const FRAMING: [&str; 3] = ["content-length", "transfer-encoding", "host"];
    let headers = headers.into_iter().flatten();
    headers
        .filter_map(|(name, value)| Some((&**name, value.as_str()?)))
        .filter(|(name, _)| {
            !FRAMING
                .iter()
                .any(|framing| name.eq_ignore_ascii_case(framing))
        })
}
