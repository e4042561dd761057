//! Answers that contain the bytes of files.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderName, Request, StatusCode, header};
use futures_util::{TryStreamExt, stream};
use headers::ContentType;
use hyper::body::Incoming;
use sha2::{Digest, Sha256};
use zstn_core::catalog::IndexName;

use super::listing::git_sha1;
use super::metrics::Route;
use super::packed_files::{FALSE_DIGEST, Named, Restored};
use super::request::Revision;
use super::site::{Answer, Site, about, client};
use super::upstream::{Entry, Permissions, Refusal, Upstream};
use crate::manifest::hex;
use zstn_serve::answer::insert;
use zstn_serve::file::begin;
use zstn_serve::path::packed_path;
use zstn_serve::unpacked;

impl Site {
    /// Answers with a file or, if only its packed counterpart exists, with the file that
    /// the counterpart restores.
    pub(super) async fn file(
        &self,
        revision: &Revision,
        path: &str,
        parts: &Parts,
        body: Incoming,
        permissions: &Permissions,
    ) -> Result<Answer, Refusal> {
        let look = |path| {
            self.entries
                .look(&self.upstream, revision, path, permissions)
        };
        let packed = packed_path(path);
        let plain = match (&packed, &*self.upstream) {
            // A file that cannot have a packed counterpart is requested from the hub
            // directly, without a lookup.
            (None, Upstream::Hub(_)) => None,
            _ => Some(look(path).await),
        };
        match (plain, packed) {
            (Some(Err(refusal)), Some(packed)) if refusal.is_no_entry() => {
                let entry = match look(&packed).await {
                    Err(other) if other.is_no_entry() => return Err(refusal),
                    entry => entry?,
                };
                let file = Named {
                    revision,
                    path: &packed,
                    entry: &entry,
                    permissions,
                    client: client(parts),
                };
                let restored = self.restored(&file, path, parts).await;
                let refused = |refusal: Refusal| Answer::of(refusal.answer(), Route::Restored);
                Ok(restored.unwrap_or_else(refused))
            }
            (Some(Err(refusal)), _) => Err(refusal),
            (plain, _) => self.as_it_is(revision, path, plain, parts, body).await,
        }
    }

    /// Answers with the file called `name` that a packed one restores.
    async fn restored(
        &self,
        file: &Named<'_>,
        name: &str,
        parts: &Parts,
    ) -> Result<Answer, Refusal> {
        let (mut response, body_bytes, tag, len_bytes) = if IndexName::parse(file.path).is_some() {
            let text = self.packed.index(file).await?;
            let tag = git_sha1(&text);
            let about = about(&tag, text.len() as u64, ContentType::json());
            let (mut response, range) = begin(&about, parts);
            let body = range.map(|range| zstn_core::bytes::part(&text, range).to_vec());
            let body_bytes = body.as_ref().map_or(0, Vec::len) as u64;
            if let Some(body) = body {
                *response.body_mut() = Body::from(body);
            }
            (response, body_bytes, tag, about.len_bytes)
        } else {
            let (packed, restored) = self.packed.packed(file).await?;
            if !restored.fits(name) {
                return Err(Refusal::no_entry(name));
            }
            let claimed = packed.sha256();
            let about = about(
                &restored.tag,
                restored.len_bytes,
                ContentType::octet_stream(),
            );
            let sent = unpacked::send(&self.packed.decoded, packed, &about, parts).await;
            let sent = sent.map_err(|error| {
                Refusal::new(StatusCode::BAD_GATEWAY, format!("{}: {error}", file.path))
            });
            let (mut response, body_bytes) = sent?;
            let is_whole = response.status() == StatusCode::OK && body_bytes > 0;
            if is_whole && restored.sha256.is_none() {
                let body = std::mem::take(response.body_mut());
                *response.body_mut() = self.hashed(body, file.entry, &restored, claimed);
            }
            (response, body_bytes, restored.tag, restored.len_bytes)
        };
        insert(&mut response, header::ACCEPT_RANGES, "bytes");
        for (name, value) in [
            ("x-repo-commit", file.entry.commit.as_deref()),
            ("x-linked-etag", Some(&*format!("\"{tag}\""))),
            ("x-linked-size", Some(&*len_bytes.to_string())),
        ] {
            if let Some(value) = value {
                insert(&mut response, HeaderName::from_static(name), value);
            }
        }
        Ok(Answer {
            response,
            body_bytes,
            route: Route::Restored,
        })
    }

    /// Hashes a restored file while it is sent. The last block is sent only if the file
    /// has the SHA-256 that its packed file claims. From then on, lists show the
    /// digest.
    fn hashed(
        &self,
        body: Body,
        entry: &Entry,
        restored: &Restored,
        claimed: Option<String>,
    ) -> Body {
        let (packed, identity) = (Arc::clone(&self.packed), entry.identity.clone());
        let restored = restored.clone();
        let state = (body.into_data_stream(), Sha256::new(), 0);
        let parts = stream::try_unfold(state, move |(mut parts, mut hasher, sent_bytes)| {
            let (packed, identity) = (Arc::clone(&packed), identity.clone());
            let (restored, claimed) = (restored.clone(), claimed.clone());
            async move {
                let Some(part) = parts.try_next().await.map_err(io::Error::other)? else {
                    return Ok(None);
                };
                hasher.update(&part);
                let sent_bytes = sent_bytes + part.len() as u64;
                if sent_bytes == restored.len_bytes {
                    let sha256 = hex(&hasher.clone().finalize());
                    if claimed.is_some_and(|claimed| claimed != sha256) {
                        return Err(io::Error::other(FALSE_DIGEST));
                    }
                    packed.note_sha256(&identity, &restored, sha256);
                }
                Ok(Some((part, (parts, hasher, sent_bytes))))
            }
        });
        Body::from_stream(parts)
    }

    async fn as_it_is(
        &self,
        revision: &Revision,
        path: &str,
        looked: Option<Result<Entry, Refusal>>,
        parts: &Parts,
        body: Incoming,
    ) -> Result<Answer, Refusal> {
        match (&*self.upstream, looked) {
            (Upstream::Folder(folder), Some(Ok(entry))) => {
                let sent = folder.send(revision, path, &entry, parts).await;
                let (mut response, body_bytes) = sent?;
                insert(&mut response, header::ACCEPT_RANGES, "bytes");
                if let Some(commit) = &entry.commit {
                    let name = HeaderName::from_static("x-repo-commit");
                    insert(&mut response, name, commit);
                }
                Ok(Answer {
                    response,
                    body_bytes,
                    route: Route::File,
                })
            }
            (Upstream::Hub(hub), _) => {
                let request = Request::from_parts(parts.clone(), body);
                Ok(Answer::passed(hub.pass(request).await, Route::File))
            }
            (Upstream::Folder(_), _) => Err(Refusal::no_entry(path)),
        }
    }
}
