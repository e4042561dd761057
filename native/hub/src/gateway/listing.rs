//! File lists as clients see them: packed files appear under the names of the files
//! they restore.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use axum::http::StatusCode;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde_json::{Map, Value, json};
use sha1::{Digest, Sha1};
use zstn_core::catalog::IndexName;

use super::packed_files::{Named, PackedFiles, Restored};
use super::request::Revision;
use super::upstream::{Entry, Permissions, Refusal, Upstream};
use crate::manifest::hex;
use zstn_serve::path::restored_paths;

/// Number of packed files that are opened concurrently for one list.
const OPENED_AT_ONCE: usize = 16;

/// Maximum number of names in one request to the upstream.
pub(super) const NAMES_AT_ONCE: usize = 500;

/// The length that hubs report for LFS pointer files, in bytes.
const POINTER_BYTES: u64 = 134;

/// One client's view of the file lists of a revision.
pub(super) struct Listing {
    pub(super) upstream: Arc<Upstream>,
    pub(super) packed: Arc<PackedFiles>,
    pub(super) revision: Revision,
    pub(super) permissions: Permissions,
    pub(super) client: IpAddr,
}

/// How a file is shown in a list.
enum View {
    /// It is left out, because the file that it restores is in the list.
    Hidden,
    /// It is shown unchanged.
    AsItIs,
    /// The file that it restores is shown in its place, under this path.
    Restored(String, Restored),
}

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key)?.as_str()
}

impl Listing {
    /// Returns the description of the repository with `siblings` as clients see them.
    pub(super) async fn info(&self, mut info: Value) -> Result<Value, Refusal> {
        let Some(siblings) = info.get_mut("siblings").and_then(Value::as_array_mut) else {
            return Ok(info);
        };
        let siblings = std::mem::take(siblings);
        let names: HashSet<String> = siblings
            .iter()
            .filter_map(|sibling| Some(text(sibling, "rfilename")?.to_owned()))
            .collect();
        let packed = names.iter().filter(|name| is_to_open(name, &names));
        let packed: Vec<String> = packed.cloned().collect();
        let mut described = Vec::new();
        for names in packed.chunks(NAMES_AT_ONCE) {
            let asked = self
                .upstream
                .paths_info(&self.revision, names, false, &self.permissions);
            described.extend(asked.await?);
        }
        let described: HashMap<&str, &Value> = described
            .iter()
            .filter_map(|value| Some((text(value, "path")?, value)))
            .collect();
        let shown: Vec<Value> = stream::iter(siblings)
            .map(|sibling| self.sibling(sibling, &names, &described))
            .buffered(OPENED_AT_ONCE)
            .try_filter_map(|shown| async { Ok(shown) })
            .try_collect()
            .await?;
        info["siblings"] = shown.into();
        Ok(info)
    }

    async fn sibling(
        &self,
        mut sibling: Value,
        names: &HashSet<String>,
        described: &HashMap<&str, &Value>,
    ) -> Result<Option<Value>, Refusal> {
        let name = text(&sibling, "rfilename").unwrap_or_default();
        let described = described.get(name).copied();
        let (path, restored) = match self.view(name, described, names).await? {
            View::Hidden => return Ok(None),
            View::AsItIs => return Ok(Some(sibling)),
            View::Restored(path, restored) => (path, restored),
        };
        // The hub includes sizes only if the client requested them.
        let has_size = sibling.get("size").is_some();
        if let Some(sibling) = sibling.as_object_mut() {
            sibling.insert("rfilename".into(), path.into());
            if has_size {
                describe(sibling, &restored, "sha256");
                sibling.insert("blobId".into(), restored.tag.into());
            }
        }
        Ok(Some(sibling))
    }

    /// Returns the entries of a folder, or of a list of paths, as clients see them.
    pub(super) async fn entries(&self, entries: Vec<Value>) -> Result<Vec<Value>, Refusal> {
        let path = |entry: &Value| Some(text(entry, "path")?.to_owned());
        let mut names: HashSet<String> = entries.iter().filter_map(path).collect();
        // A file and its packed counterpart may be on different pages of the list.
        let unsure = names.iter().flat_map(|name| restored_paths(name));
        let unsure: Vec<_> = unsure.filter(|name| !names.contains(name)).collect();
        for unsure in unsure.chunks(NAMES_AT_ONCE) {
            let asked = self
                .upstream
                .paths_info(&self.revision, unsure, false, &self.permissions);
            names.extend(asked.await?.iter().filter_map(path));
        }
        stream::iter(entries)
            .map(|entry| self.entry(entry, &names))
            .buffered(OPENED_AT_ONCE)
            .try_filter_map(|shown| async { Ok(shown) })
            .try_collect()
            .await
    }

    async fn entry(
        &self,
        mut entry: Value,
        names: &HashSet<String>,
    ) -> Result<Option<Value>, Refusal> {
        let name = text(&entry, "path").unwrap_or_default();
        let is_file = text(&entry, "type") == Some("file");
        if !is_file {
            return Ok(Some(entry));
        }
        let (path, restored) = match self.view(name, Some(&entry), names).await? {
            View::Hidden => return Ok(None),
            View::AsItIs => return Ok(Some(entry)),
            View::Restored(path, restored) => (path, restored),
        };
        if let Some(entry) = entry.as_object_mut() {
            entry.insert("path".into(), path.into());
            describe(entry, &restored, "oid");
            entry.insert("oid".into(), restored.tag.into());
        }
        Ok(Some(entry))
    }

    /// Returns how the file at `path` is shown in a list of files with these `names`.
    async fn view(
        &self,
        path: &str,
        described: Option<&Value>,
        names: &HashSet<String>,
    ) -> Result<View, Refusal> {
        let paths = restored_paths(path);
        if paths.is_empty() {
            return Ok(View::AsItIs);
        }
        if !is_to_open(path, names) {
            return Ok(View::Hidden);
        }
        let restored = self.restored(path, described).await?;
        let shown = restored.and_then(|restored| {
            let shown = paths.iter().find(|path| restored.fits(path))?.clone();
            Some((shown, restored))
        });
        Ok(match shown {
            Some((shown, _)) if names.contains(&shown) => View::Hidden,
            Some((shown, restored)) => View::Restored(shown, restored),
            None if paths.iter().any(|path| names.contains(path)) => View::Hidden,
            None => View::AsItIs,
        })
    }

    /// Returns the file that the packed one at `path` restores, or `None` if it cannot be
    /// restored.
    async fn restored(
        &self,
        path: &str,
        described: Option<&Value>,
    ) -> Result<Option<Restored>, Refusal> {
        let Some(entry) = described.and_then(|value| self.upstream.entry(&self.revision, value))
        else {
            let message = format!("the upstream lists {path} and does not describe it");
            return Err(Refusal::new(StatusCode::BAD_GATEWAY, message));
        };
        let file = Named {
            revision: &self.revision,
            path,
            entry: &entry,
            permissions: &self.permissions,
            client: self.client,
        };
        let restored = match IndexName::parse(path).is_some() {
            false => self.packed.restored(&file).await,
            true => self.packed.index(&file).await.map(|text| {
                Some(Restored {
                    len_bytes: text.len() as u64,
                    tag: git_sha1(&text),
                    sha256: None,
                    is_safetensors: true,
                })
            }),
        };
        match restored {
            // A single file that is damaged, or that this client may not read, is shown
            // as it is, so that it does not hide the others.
            Err(refusal) if refusal.is_of_file() => Ok(None),
            restored => restored,
        }
    }
}

/// Returns the SHA-1 that git and hubs use to identify a small file.
pub(super) fn git_sha1(bytes: &[u8]) -> String {
    let mut hasher = Sha1::new();
    hasher.update(format!("blob {}\0", bytes.len()));
    hasher.update(bytes);
    hex(&hasher.finalize())
}

/// Returns whether the file `name` is packed and a file that it may restore is not in
/// `names`.
fn is_to_open(name: &str, names: &HashSet<String>) -> bool {
    restored_paths(name)
        .iter()
        .any(|path| !names.contains(path))
}

/// Replaces a packed file's length and digest with those of the restored file. `digest`
/// is the name of the field with the SHA-256.
fn describe(entry: &mut Map<String, Value>, restored: &Restored, digest: &str) {
    entry.insert("size".into(), restored.len_bytes.into());
    for name in ["xetHash", "lfs", "security", "securityFileStatus"] {
        entry.remove(name);
    }
    if let Some(sha256) = &restored.sha256 {
        let lfs = json!({
            digest: sha256,
            "size": restored.len_bytes,
            "pointerSize": POINTER_BYTES,
        });
        entry.insert("lfs".into(), lfs);
    }
}

impl Upstream {
    /// Returns the file that `value`, an entry of a list, describes.
    fn entry(&self, revision: &Revision, value: &Value) -> Option<Entry> {
        let lfs = value.get("lfs").filter(|lfs| lfs.is_object());
        let tag = lfs
            .and_then(|lfs| text(lfs, "oid"))
            .or_else(|| text(value, "oid"))?;
        let len_bytes = value.get("size")?.as_u64()?;
        Some(Entry {
            commit: None,
            identity: self.identity(&revision.repository, text(value, "path")?, tag, len_bytes),
            len_bytes,
        })
    }
}
